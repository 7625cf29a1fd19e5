"""Two studies that differ by one patient do not show the patient.

The attacker has both studies, and knows nothing else. Unrounded, moments times rows of one study,
less those of the other, are the patient's encoded numbers; so are the shares of levels.
"""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from replearn.datasets import CENTRES, load_readmission
from replearn.study import Request, publish
from replearn.tables import open_table

TARGET = "readmitted"
N_ROWS, N_PATIENTS = 1100, 11  # of each table


def _study(table):
    return publish(open_table(table, target=TARGET), Request(target=TARGET, ridge=0.01)).study


def _shown(study):
    """What a study shows of its rows, added up: the constant and the terms, from its triangles."""
    _, columns = study.design.coordinates.factors()
    return study.n_original * (columns @ columns.T)[0]


def _shown_shares(study):
    """The same of the levels, from the profile: the reference first."""
    every = [part.shares for part in study.profile.columns if part.kind == "levels"]
    return [study.n_original * np.array(shares, dtype=float) for shares in every]


def _guesses(first, second):
    """Places of the patient's levels, the reference first, and numbers; by what moved most."""
    terms = _shown(first) - _shown(second)
    encoding = first.design.encoding
    by_name = dict(zip(encoding.term_names, terms[1:], strict=True))
    moved = iter(zip(_shown_shares(first), _shown_shares(second), strict=True))
    levels, numbers = [], []
    for column in encoding.columns:
        own = [by_name[name] for _, name in column.terms]
        if column.kind == "number":
            numbers.append(np.clip(own[0], -4, 4))
            continue
        ours, theirs = next(moved)
        votes = np.append(1 - sum(own), own) + (ours - theirs)
        levels.append(int(votes.argmax()))
    return np.array(levels), np.array(numbers)


def _truth(study, row):
    """The same of the patient, and of somebody of whom nothing is known."""
    levels, numbers, likeliest = [], [], []
    for column, part in zip(study.design.encoding.columns, study.profile.columns, strict=True):
        cell = row[column.name]
        if column.kind == "levels":
            levels.append(column.places.get(str(cell), -1) + 1)
            likeliest.append(int(np.argmax(np.array(part.shares, dtype=float))))
        else:
            number = (float(cell) - float(column.centre)) / float(column.spread)
            numbers.append(np.clip(number, -4, 4))
    return np.array(levels), np.array(numbers), np.array(likeliest)


@pytest.mark.slow
def test_levels_and_numbers_of_one_patient():
    """A table may have a share on the edge between two steps; so several tables are attacked."""
    hits, errors, blind = [], [], []
    for centre in CENTRES:
        table = load_readmission(centre, N_ROWS)
        first = _study(table)
        for place in range(0, N_ROWS, N_ROWS // N_PATIENTS):
            levels, numbers = _guesses(first, _study(table.drop(table.index[place])))
            true_levels, true_numbers, likeliest = _truth(first, table.iloc[place])
            hits.append([(levels == true_levels).mean(), (likeliest == true_levels).mean()])
            known = ~np.isnan(true_numbers)
            errors.extend(np.abs(numbers - true_numbers)[known])
            blind.extend(np.abs(true_numbers)[known])

    # exact moments give all levels of all patients, and numbers within .3 spreads in the median
    attacked, guessed = np.mean(hits, axis=0)
    assert attacked < guessed + 0.06
    complete, by_chance = (np.array(hits) == 1).mean(axis=0)
    assert complete < by_chance + 0.12
    assert np.median(errors) > 0.95 * np.median(blind)


def _move_of_the_constant(first, second, n_rows):
    """Of the gradient, in rows: what the patient adds to the sum of residuals, of open models."""
    moved = [one.study.design.decode(one.model.codes)[0] for one in (first, second)]
    _, columns = first.study.design.coordinates.factors()
    return n_rows * ((columns @ columns.T) @ (moved[0] - moved[1]))[0]


def _numbers_that_moved(first, second):
    """Published steps of coefficients that are others in the second study; no model is open."""
    moved = zip(first.design.sketch, second.design.sketch, strict=True)
    return sum(one != other for one, other in moved)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bits", "n_rows", "opened", "closed"),
    [
        (8, N_ROWS, (0.9, 1.0), (0.8, 1.0)),
        (4, N_ROWS, (0.2, 0.8), (0.4, 1.0)),
        (8, 4 * N_ROWS, (0.2, 0.8), (0.8, 1.0)),
    ],
)
def test_outcomes_of_patients_from_two_studies(bits, n_rows, opened, closed):
    """Who has an event moves more numbers: of few rows two studies show it, opened or not.

    Published with fewer bits, or from more rows, the constant alone no longer shows it.
    """
    outcomes, moves, counts = [], [], []
    for centre in CENTRES:
        table = load_readmission(centre, n_rows)
        request = Request(target=TARGET, ridge=0.01, sketch_bits=bits)
        first = publish(open_table(table, target=TARGET), request)
        for place in range(0, n_rows, n_rows // N_PATIENTS):
            rest = table.drop(table.index[place])
            second = publish(open_table(rest, target=TARGET), request)
            if second.study.design.encoding == first.study.design.encoding:
                outcomes.append(table.iloc[place][TARGET])
                moves.append(_move_of_the_constant(first, second, n_rows))
                counts.append(_numbers_that_moved(first.study, second.study))
    assert len(outcomes) > 15
    for scores, (low, high) in ((moves, opened), (counts, closed)):
        assert low <= roc_auc_score(outcomes, scores) <= high
