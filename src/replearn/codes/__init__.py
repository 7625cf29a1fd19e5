"""From points to whole numbers that labs share, and back: coins, maps, cells, stability."""

from replearn.codes.cells import (
    CELLS,
    CUBES,
    check_rounding,
    isotropic_flips,
    proved_flips,
    runs,
    second_moment,
    walls,
)
from replearn.codes.coins import Coins, seed_text
from replearn.codes.foam import FOAM_FLIPS, FOAM_VARIANCE, MAX_FOAM_INPUTS, TYPICAL_FOAM_FLIPS
from replearn.codes.model import HalfspaceDesign, HalfspaceModel, Model, names_in_design
from replearn.codes.nets import (
    MAX_CANDIDATES,
    NetSpace,
    candidates,
    decimal_down,
    decimal_up,
    fewest_components,
    log_cap,
    log_net_size,
    log_projected_tail,
)
from replearn.codes.projection import FULL, check_components, projection_matrix
from replearn.codes.recipe import (
    MAX_ROWS,
    MODES,
    Bound,
    Fitted,
    Mode,
    Plan,
    Promise,
    Recipe,
    Sizes,
    Spread,
    after_constant,
    common,
    has_intercept,
    log_terms,
    rows_for,
)
from replearn.codes.sketch import Cells
from replearn.codes.space import CodeSpace
from replearn.codes.stability import (
    chance_of_any,
    chance_of_each,
    chance_of_leaving,
    least_number,
    least_whole,
    width_for,
)
from replearn.codes.votes import MAX_ROUNDS, VoteSpace, hypothesis, round_mean, share_leaving
