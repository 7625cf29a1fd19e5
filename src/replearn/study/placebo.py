"""A match that labels have no part in proves nothing: the fit again, with permuted labels.

Whoever forges a study for which any labels will do can hide it from every look at single numbers.
They cannot hide that the lab's own patients, with the outcomes of others, give the model too.
"""

from dataclasses import replace

import numpy as np

from replearn.errors import ReplearnError
from replearn.glm import GLM, GlmModel, newton
from replearn.rows import MemoryBlocks, Rows, row_marks, sampled
from replearn.study.study import GlmStudy

#: Rows that are enough: cells that any labels hit are wide beside what rows make differ.
_MOST_ROWS = 1 << 14


def placebo_matches(study: GlmStudy, model: GlmModel, rows: Rows) -> bool:
    """Whether permuted labels give this model, as far as its slopes go.

    The permutation follows the content of rows, so that their order does not matter.
    """
    design = study.design
    block = sampled(rows, _MOST_ROWS, salt=20).block

    # the same rows, with the outcomes of others
    giver, taker = (np.argsort(row_marks(block, salt), kind="stable") for salt in (21, 22))
    targets = np.empty_like(block.targets)
    targets[taker] = block.targets[giver]
    permuted = MemoryBlocks(replace(block, targets=targets))
    try:
        fitted = GLM.run(permuted, design, newton.NEAR_ENOUGH)
    except ReplearnError:  # labels that no model fits do not match
        return False
    placebo = GlmModel(design, fitted.codes)
    return placebo.without_constants == model.without_constants
