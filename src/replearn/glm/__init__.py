"""Generalised linear models: losses, exact Newton steps, spreads, coordinates, support."""

from replearn.glm.between import Between, CentreFits, assumed, excess_variance, learned, named_pair
from replearn.glm.coefficients import Coefficients
from replearn.glm.collinear import copies_of_numbers, repeated_columns
from replearn.glm.coordinates import Coordinates
from replearn.glm.derivatives import mean_information, unpacked
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
)
from replearn.glm.model import GlmModel, decided
from replearn.glm.newton import MOST_STEERED, LastIterate, State, Summary, fit, totals_of
from replearn.glm.recalibration import (
    Recalibration,
    fit_constants,
    fit_factor,
    slopes_of,
    thousandths,
)
from replearn.glm.recipe import GLM, GlmPlan, OwnSpread
from replearn.glm.sandwich import Estimates, estimates_of
from replearn.glm.sketched import (
    LEAST_CENTRE,
    MOST_INFLATION,
    NumberSpread,
    Promise,
    RidgeFit,
    planned_widths,
)
from replearn.glm.support import Reference, ScoreTest, score_test, shift_of
from replearn.glm.survival import concordance, hazard_of, log_hazards, survival_at
from replearn.glm.validation import RIDGES, Fold, scored

__all__ = [
    "Bernoulli",
    "Between",
    "CentreFits",
    "Coefficients",
    "Coordinates",
    "DIRECTION_BITS",
    "Estimates",
    "Fold",
    "GLM",
    "Gaussian",
    "GlmDesign",
    "GlmModel",
    "GlmPlan",
    "Hazard",
    "Influence",
    "Kind",
    "LEAST_CENTRE",
    "PROMISED_ROWS",
    "LastIterate",
    "Loss",
    "MAX_NUMBERS",
    "MOST_INFLATION",
    "MOST_STEERED",
    "Multinomial",
    "NumberSpread",
    "OwnSpread",
    "Poisson",
    "Promise",
    "RIDGES",
    "Recalibration",
    "Reference",
    "RidgeFit",
    "ScoreTest",
    "State",
    "Summary",
    "assumed",
    "concordance",
    "copies_of_numbers",
    "decided",
    "estimates_of",
    "excess_variance",
    "fit",
    "fit_constants",
    "fit_factor",
    "hazard_of",
    "influence_of",
    "learned",
    "log_hazards",
    "loss_of",
    "mean_information",
    "named_pair",
    "planned_widths",
    "repeated_columns",
    "score_test",
    "scored",
    "shift_of",
    "slopes_of",
    "survival_at",
    "thousandths",
    "totals_of",
    "unpacked",
]
