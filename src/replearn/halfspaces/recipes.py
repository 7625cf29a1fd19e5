"""Table 1 of the paper; each algorithm has a file of its own beside this one."""

from replearn.codes import Recipe
from replearn.halfspaces.boosting import BOX, FOAM
from replearn.halfspaces.dp import DP
from replearn.halfspaces.net import NET
from replearn.halfspaces.sgd import SGD
from replearn.halfspaces.svm import SVM

#: The six lines of Table 1 of the paper, in its order, by name.
TABLE1: dict[str, Recipe] = {recipe.name: recipe for recipe in (FOAM, BOX, SVM, SGD, NET, DP)}
