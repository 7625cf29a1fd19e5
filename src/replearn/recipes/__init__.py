"""One file per algorithm, and the one table of them."""

from replearn.recipes.boosting import BOX, FOAM
from replearn.recipes.dp import DP
from replearn.recipes.net import NET
from replearn.recipes.recipe import Recipe
from replearn.recipes.sgd import SGD
from replearn.recipes.svm import SVM

#: The six rows of Table 1 of the paper, in its order, by name.
RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (FOAM, BOX, SVM, SGD, NET, DP)}
