"""Plans from a pilot: a small published sample decides what a promise alone cannot know.

A pilot of a thousand rows says how the columns are scaled, which directions matter and how
much a lab's estimate will vary. From that follow the scaling, the directions, the start and the
cells, all written into a protocol before any site looks at its own rows. The pilot is not
part of any site's sample.

============== ======================================================================
encoders       columns to numbers, robustly; the length at which rows are shortened
ridge          the pilot's own model, and scores of rows that a fit has not seen
families       directions, with and without the help of labels
scores         published scores as directions
cross_fit      what held-out rows say about a family: information, variance, signal
allotment      cells for a wanted agreement, and what they leave of the signal
designs        the published form
truth          what it is worth, next to what a sceptic would ask for
unlucky_seeds  seeds whose cells happen to lie badly
request        what a study asks for
pilot_plan     the plan as people see it
two_classes    all of it for logistic regression
many_classes   the same for more than two classes
svm_plan       the same for Algorithms 1 and 2
net_plan       and for Algorithm 3, over a few published directions
============== ======================================================================
"""

from replearn.study.pilot.entry import plan_from_pilot
from replearn.study.pilot.net_plan import NetPilotPlan
from replearn.study.pilot.pilot_plan import PilotPlan
from replearn.study.pilot.svm_candidates import FrontierPoint
from replearn.study.pilot.svm_plan import SvmPilotPlan

__all__ = ["FrontierPoint", "NetPilotPlan", "PilotPlan", "SvmPilotPlan", "plan_from_pilot"]
