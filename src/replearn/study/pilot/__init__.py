"""Plans from a pilot: a small published sample decides what a promise alone cannot know.

A pilot of a thousand rows says how the margins are spread, in which directions the data lie and
how much a lab's direction will vary. From that follow the scaling, the regularisation, the
directions to round in and the grid, all written into a protocol before any site looks at
its own rows. The pilot is not part of any site's sample.
"""

from replearn.study.pilot.candidates import FrontierPoint
from replearn.study.pilot.pilot_plan import PilotPlan, plan_from_pilot

__all__ = ["FrontierPoint", "PilotPlan", "plan_from_pilot"]
