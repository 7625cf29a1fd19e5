"""Generalised linear models: losses, exact Newton steps, spreads, coordinates, support."""

from replearn.glm.between import Between, CentreFits, assumed, excess_variance, learned, named_pair
from replearn.glm.coefficients import Coefficients
from replearn.glm.collinear import copies_of_numbers, repeated_columns
from replearn.glm.coordinates import Coordinates
from replearn.glm.derivatives import MOST_STEERED, mean_information, over_scores, unpacked
from replearn.glm.design import DIRECTION_BITS, MAX_NUMBERS, GlmDesign
from replearn.glm.influence import Influence, influence_of
from replearn.glm.losses import (
    PROMISED_ROWS,
    Bernoulli,
    Gaussian,
    Hazard,
    Kind,
    Loss,
    Multinomial,
    Poisson,
    loss_of,
    loss_of_numbers,
    means_of,
)
from replearn.glm.model import GlmModel, decided
from replearn.glm.newton import LastIterate, NewtonState, Summary, fit, totals_of
from replearn.glm.recalibration import (
    Recalibration,
    fit_constants,
    fit_factor,
    slopes_of,
    thousandths,
)
from replearn.glm.recipe import GLM, GlmPlan, GlmPromise, OwnSpread
from replearn.glm.sandwich import Estimates, estimates_of
from replearn.glm.sketched import LEAST_CENTRE, MOST_INFLATION, NumberSpread, RidgeFit
from replearn.glm.support import Reference, ScoreTest, combined, score_test, shift_of
from replearn.glm.survival import concordance, hazard_of, log_hazards, survival_at
from replearn.glm.validation import RIDGES, Fold, scored
