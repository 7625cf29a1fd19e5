"""The paper's Table 1: one file for each algorithm, found by its name, and the table of all.

Compiled loops come with a fit, and not with this room.
"""

from replearn.codes import Recipe
from replearn.halfspaces.batches import OnePass, Trace, refuse_sorted, round_mean, trace
from replearn.halfspaces.boosting import BOX, FOAM
from replearn.halfspaces.dp import DP, DPPlan
from replearn.halfspaces.net import NET
from replearn.halfspaces.published_plan import PublishedPlan
from replearn.halfspaces.rounded import BatchPlan, calm_variance, rows_that_agree, rows_that_pass
from replearn.halfspaces.sgd import SGD
from replearn.halfspaces.svm import SVM

#: The six lines of Table 1 of the paper, in its order, by name.
TABLE1: dict[str, Recipe] = {recipe.name: recipe for recipe in (FOAM, BOX, SVM, SGD, NET, DP)}
