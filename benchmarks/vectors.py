"""Test vectors of every step of a fit, for other implementations: writes docs/vectors.json.

Rows of a case are stored where they are few; of the large cases they come from the coins, as
``rows_from_coins`` says.
"""

import math
import tempfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from replearn.codes import Cells, Coins, chance_of_each, stability, width_for
from replearn.documents import canonical_json, decimal_text
from replearn.exact import algebra, elementary
from replearn.glm import (
    Bernoulli,
    Coordinates,
    GlmDesign,
    GlmModel,
    Loss,
    Multinomial,
    Poisson,
    Summary,
    between,
    coordinates,
    derivatives,
    fit,
    newton,
    preconditioners,
    support,
    unpacked,
)
from replearn.glm.losses import Gaussian
from replearn.glm.sketched import second_moments
from replearn.rows import Block, MemoryBlocks, marks
from replearn.rows import blocks as rows
from replearn.study import (
    GlmStudy,
    RowEncoder,
    State,
    TableRows,
    combine,
    evidence,
    lab_sums,
    passes,
    read_rows,
    study,
)
from replearn.study.study import sealed_commitment
from replearn.tables import (
    Encoding,
    EncodingCounts,
    LevelColumn,
    NumberColumn,
    Product,
    Profile,
    cells,
    open_table,
    profile,
    safety,
)
from replearn.tables import counts as seen
from replearn.tables.profile import LevelProfile, NumberProfile

PATH = Path(__file__).parents[1] / "docs" / "vectors.json"


def rows_from_coins(name: str, n_rows: int, n_terms: int) -> np.ndarray:
    """Terms from four uniforms each: ``floor((a + b + c + d - 2) * 7000 + 0.5)``, row by row."""
    u = Coins("vectors").uniforms(name, 4 * n_rows * n_terms).reshape(n_rows, n_terms, 4)
    total = ((u[..., 0] + u[..., 1]) + u[..., 2]) + u[..., 3]
    return np.floor((total - 2.0) * 7000.0 + 0.5).astype(np.int16)


def targets_from_coins(name: str, terms: np.ndarray, loss: Loss) -> np.ndarray:
    """Targets that depend on the first term: no part of the format."""
    u = Coins("vectors").uniforms(f"{name}/targets", len(terms))
    x = terms[:, 0] / 4096.0
    if loss.kind == "bernoulli":
        return (u * 6 - 3 < x).astype(np.float64)
    if loss.kind == "multinomial":
        return np.clip(np.floor((u + x / 4) * loss.n_scores + 0.5), 0, loss.n_scores)
    if loss.kind == "gaussian":
        return np.floor((x + 2 * u - 1) * 65536 + 0.5) / 65536
    return np.floor(u * u * 6 * (1.5 + np.clip(x, -1, 1)))


def cases() -> dict[str, tuple[Block, Loss, str]]:
    """The fits: rows, loss and ridge."""
    found: dict[str, tuple[Block, Loss, str]] = {}
    losses: dict[str, Loss] = {
        "two classes": Bernoulli(),
        "four classes": Multinomial(4),
        "numbers": Gaussian("0", "1"),
        "counts": Poisson(8),
    }
    for name, loss in losses.items():
        terms = rows_from_coins(name, 60, 3)
        found[name] = Block(terms, targets_from_coins(name, terms, loss)), loss, "0.01"
        u = Coins("vectors").uniforms(f"{name}/weights", 120)
        weights = np.floor(u[:60] * 65536 + 0.5) / 65536
        offset = np.floor((u[60:] - 0.5) * 65536 + 0.5) / 65536
        weighted = Block(terms, found[name][0].targets, weights, offset)
        found[f"{name}, weights and offset"] = weighted, loss, "0.003"
    terms = rows_from_coins("separable", 60, 2)
    terms[:, 1] = terms[:, 0]
    targets = (terms[:, 0] > 0).astype(np.float64)
    targets[0] = 1 - targets[0]
    found["nearly separable, a column twice"] = Block(terms, targets), Bernoulli(), "0.0001"
    terms = rows_from_coins("sampled", 40_000, 2)
    targets = targets_from_coins("sampled", terms, Bernoulli())
    found["a share of the rows"] = Block(terms, targets), Bernoulli(), "0.001"
    terms = rows_from_coins("many", 1000, 505)
    targets = targets_from_coins("many", terms, Bernoulli())
    found["many coefficients"] = Block(terms, targets), Bernoulli(), "0.1"
    terms = rows_from_coins("many classes", 400, 10)
    order = np.argsort(terms[:, 0] + 4 * terms[:, 1], kind="stable")
    targets = np.empty(400)
    targets[order] = (np.arange(400) * 7 % 51 + np.arange(400) // 80) % 51
    found["many classes"] = Block(terms, targets), Multinomial(51), "0.01"
    terms = rows_from_coins("ten classes", 120, 10)
    targets = targets_from_coins("ten classes", terms, Multinomial(10))
    found["ten classes"] = Block(terms, targets), Multinomial(10), "0.1"
    return found


def fit_vector(block: Block, loss: Loss, ridge: str) -> dict[str, Any]:
    """Every step of one fit, and the codes of an original and of a replication."""
    rows = MemoryBlocks(block)
    summary = Summary.of(rows, loss).check(loss)
    passes, sums = [], []
    theta: Any = newton.start(loss, summary, rows.n_terms + 1)
    while isinstance(theta, newton.NewtonState):
        passes.append({"theta": whole(theta.theta), "share": theta.sample_threshold})
        sums.append(theta.sums(rows.blocks(), loss))
        theta = newton.advance(theta, sums[-1], loss, float(ridge))
    coordinates = Coordinates.of(
        loss.information(summary.shares), second_moments(rows), float(ridge)
    )
    z = coordinates.of_theta(theta)
    cells = Cells.drawn(np.full(z.size, 0.0625), 3, Coins("vectors"))
    codes, sketch = cells.publish(z)
    first = dict(sums[0].values)
    shape = first["gradient"].shape
    first["information"] = unpacked(first["information"], shape[1], derivatives.form_of(shape))
    return {
        "loss": loss.content(),
        "ridge": ridge,
        "shares": summary.shares.tolist(),
        "passes": passes,
        "first": {name: value.tolist() for name, value in first.items()},
        "theta": whole(theta),
        "coordinates": coordinates.content(),
        "numbers": z.tolist(),
        "widths": ["0.0625"] * z.size,
        "bits": 3,
        "seed": "vectors",
        "sketch": sketch.tolist(),
        "codes": codes.tolist(),
        "moved": cells.replicate(z + 0.03, sketch).tolist(),
        "decoded": cells.decode(codes, sketch).tolist(),
        "coefficients": coordinates.to_theta(cells.decode(codes, sketch)).tolist(),
    }


def whole(theta: np.ndarray) -> list[list[int]]:
    return theta.astype(np.int64).tolist()


#: A table with all that a CSV file may have, and how it is encoded.
TABLE = (
    "\ufeffage;ward;sex;died;mass;note\r\n"
    '61.5;B;1;0;1;"one; two"\r\n'
    '.5e2;"A";01;1;0.25;"three ""four""\nfive"\r\n'
    "NA;C d;TRUE;0;0;\r\n\r\n"
    "1e6; ;1.0;1;3.5;x\r\n"
    '-7;(other);0;"0";0.00001;x\r\n'
    "no;É;?;1;2;x"
)
ENCODING = Encoding(
    (
        NumberColumn("age", "60", "12", ("55", "70"), indicator=True),
        LevelColumn("ward", ("B", "(missing)", "(other)"), "A"),
        LevelColumn("sex", ("0",), "1"),
    ),
    (Product(0, 4), Product(0, 7)),
)


def table_vector() -> dict[str, Any]:
    """Cells, terms, targets and weights of a small table."""
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "table.csv").write_bytes(TABLE.encode())
        table = open_table(path, target="died", weights="mass", columns=ENCODING.names)
        seen = EncodingCounts(ENCODING)
        encoder = RowEncoder(ENCODING, Bernoulli(), (0, 1), np.array([0.5, 1.5]))
        (batch,) = table.batches()
        terms, targets = ENCODING.encode(batch, seen), encoder.targets(batch)
        masses = encoder.masses(batch, targets)
        assert masses is not None
        scale = 2.0 ** math.frexp(masses.max())[1]
        weights = encoder.block(batch, scale).weights
        assert weights is not None
    gaussian, y = Gaussian("25", "4"), [25.0, 24.3, -100.0, 25.00003]
    poisson, counts = Poisson(6), [0.0, 3.0, 64.0, 100.0]
    return {
        "csv": TABLE,
        "encoding": ENCODING.content(),
        "target": "died",
        "weights": "mass",
        "classes": [0, 1],
        "class_weight": ["0.5", "1.5"],
        "terms": terms.tolist(),
        "cells": np.array([seen.missing, seen.unknown, seen.unreadable, seen.clipped]).tolist(),
        "targets": targets.tolist(),
        "scale": scale,
        "kept": np.flatnonzero(masses > 0).tolist(),
        "scaled": weights.tolist(),
        "gaussian": [gaussian.content(), y, gaussian.units(np.array(y)).tolist()],
        "poisson": [poisson.content(), counts, poisson.units(np.array(counts)).tolist()],
    }


def study_vector() -> dict[str, Any]:
    """A study, a lab's CSV file, its model file, and its sums file in each round of a fit alone."""
    n = 600
    u = Coins("vectors").uniforms("patients", 4 * n).reshape(n, 4)
    age = [decimal_text(40 + 40 * v, 4) for v in u[:, 0].tolist()]
    ward = [("A", "B", "")[int(3 * v)] for v in u[:, 1]]
    died = (u[:, 2] < (40 * u[:, 0] + 5) / 50).astype(int).tolist()
    lines = [",".join(map(str, row)) for row in zip(age, ward, died, strict=True)]
    text = "\n".join(["age,ward,died", *lines]) + "\n"
    encoding = Encoding(ENCODING.columns[:2], (Product(0, 4),))
    q = encoding.n_terms + 1
    width = decimal_text(1.05 * width_for(chance_of_each(0.01, q), 3) * math.sqrt(2 / n))
    coordinates = Coordinates.of(np.eye(1), np.eye(q), 0.0)
    widths = (width,) * q
    design = GlmDesign(
        "died", encoding, Bernoulli(), "0.01", coordinates, widths, 0, "vectors", (0, 1)
    )
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "table.csv").write_text(text)
        table = open_table(path, target="died", columns=encoding.names)
        rows = read_rows(TableRows(table, RowEncoder.of(design)))
        theta = fit(rows, design.loss, design.ridge, Summary.of(rows, design.loss))
        design = replace(design, bits=3)
        codes, sketch = design.cells.publish(design.coordinates.of_theta(theta))
        design = replace(design, sketch=sketch)
        model = GlmModel(design, codes)
        profile = Profile(
            (NumberProfile("age", (), "0"), LevelProfile("ward", ("0",) * 4)), ("0.5",) * 2
        )
        study = GlmStudy(
            design,
            "0.01",
            n,
            n,
            ("1",) * q,
            ("0",) * q,
            0,
            profile,
            model.fingerprint,
            model.without_constants.fingerprint,
        )
        rounds: list[Any] = []
        state: Any = study.begin()
        while isinstance(state, State):
            sums = lab_sums(study, table, state, lab="a lab")
            rounds.append({"state": state.content(), "sums": sums.content()})
            state = combine(study, sums, state=state)
    return {
        "study": study.content(),
        "study_fingerprint": study.fingerprint,
        "csv": text,
        "model": model.content(),
        "model_fingerprint": model.fingerprint,
        "rounds": rounds,
        "seal": {"nonce": "0" * 32, "commitment": sealed_commitment("0" * 32, model.fingerprint)},
    }


def constants() -> dict[str, Any]:
    """Numbers that all implementations share, by the name that JavaScript and R give them."""
    return {
        "ROW_BITS": rows.ROW_BITS,
        "THETA_BITS": rows.THETA_BITS,
        "WEIGHT_BITS": rows.WEIGHT_BITS,
        "RESIDUAL_BITS": rows.RESIDUAL_BITS,
        "MAX_ROW": rows.MAX_ROW,
        "MAX_SCORE": elementary.MAX_SCORE,
        "LN2_HI": elementary.LN2_HI,
        "LN2_LO": elementary.LN2_LO,
        "ROOT_HALF": elementary._SQRT_HALF,
        "ALL": rows.EVERY_ROW,
        "LEAST_PIVOT": preconditioners.LEAST_PIVOT,
        "NEAR": newton._NEAR,
        "NEAR_ENOUGH": newton.NEAR_ENOUGH,
        "MAX_THETA": newton.MAX_THETA,
        "ROWS_PER_COEFFICIENT": newton.ROWS_PER_COEFFICIENT,
        "LARGE_STEP": newton._LARGE_STEP,
        "MOST_STEPS": newton._MOST_STEPS,
        "MOST_STEERED": derivatives.MOST_STEERED,
        "MOST_PAIRED": derivatives.MOST_PAIRED,
        "MOST_BY_CLASS": newton._MOST_BY_CLASS,
        "MEMORY": newton._MEMORY,
        "TRIANGLE_BITS": coordinates.TRIANGLE_BITS,
        "EXPONENTS": passes._EXPONENTS,
        "SIZES": between.SIZES,
        "SHARES": between.SHARES,
        "MOST_CHANCE": stability._MOST_CHANCE,
        "MOST_UPPER": study._MOST_UPPER,
        "MOST_SPREAD": study.MOST_SPREAD,
        "LEAST_BITS": evidence.LEAST_BITS,
        "MOST_RUN": evidence._MOST_RUN,
        "MOST_COUNTED": evidence._MOST_COUNTED,
        "MOST_BITS": evidence._MOST_BITS,
        "MOST_TESTED": support.MOST_TESTED,
        "LEAST_COUNT": safety.LEAST_COUNT,
        "MOST_UNKNOWN": seen.MOST_UNKNOWN,
        "MOST_MISSING": seen.MOST_MISSING,
        "FEWEST_ROWS": seen._FEWEST_ROWS,
        "CHANCE": profile.CHANCE,
        "LEAST_APART": profile.LEAST_APART,
        "MOST_GAPS": profile.MOST_GAPS,
        "MAX_TEXT": cells.MAX_TEXT,
        "MISSING_WORDS": list(cells.MISSING_WORDS),
    }


def vectors() -> dict[str, Any]:
    """All of them, as JSON types."""
    points = np.array([-60.0, -30.0, -1.0, -0.34657359027997264, -1e-9, 0.0, 0.1, 1.0, 30.0, 60.0])
    positive = np.array([1e-300, 1e-9, 0.5, 0.7071067811865475, 0.7071067811865476, 1.0, 3.0, 1e9])
    matrix = np.array([[4.0, 2.0, 0.6], [2.0, 5.0, 0.3], [0.6, 0.3, 1e-9]])
    lower = algebra.cholesky(matrix, 0.025)
    right = np.array([1.0, -2.0, 0.5])
    content = {
        "b": [1, 1e-7, -0.0, 1e21, 0.1],
        "é": '\u20ac\n"',
        "a": {"": None},
        "\U0001f600": True,
    }
    ties = Cells.drawn(np.full(6, 0.25), 3, Coins("vectors"))
    at = (0.5 - ties.shifts) * 0.25  # exactly between two cells; the second half just below
    at[3:] -= 2.0**-54
    terms = rows_from_coins("marks", 4, 3)
    return {
        "constants": constants(),
        "canonical": {
            "content": content,
            "text": canonical_json(content).decode(),
            "sha256": sha256(canonical_json(content)).hexdigest(),
        },
        "words": {
            "seed": "2024",
            "stream": "cells",
            "row": 3,
            "words": [str(word) for word in Coins(2024).words("cells", 6, 3).tolist()],
            "uniforms": Coins(2024).uniforms("cells", 6, 3).tolist(),
        },
        "exp": [points.tolist(), elementary.exp(points).tolist()],
        "sigmoid": [points.tolist(), elementary.sigmoid(points).tolist()],
        "log": [positive.tolist(), elementary.log(positive).tolist()],
        "algebra": {
            "matrix": matrix.tolist(),
            "floor": 0.025,
            "lower": lower.tolist(),
            "right": right.tolist(),
            "solution": algebra.solve(lower, right).tolist(),
        },
        "marks": {"terms": terms.tolist(), "marks": marks(terms).tolist()},
        "ties": {
            "widths": ["0.25"] * 6,
            "bits": 3,
            "seed": "vectors",
            "sketch": [0] * 6,
            "numbers": at.tolist(),
            "codes": ties.replicate(at, np.zeros(6, dtype=np.int64)).tolist(),
        },
        "table": table_vector(),
        "study": study_vector(),
        "fits": [
            {"name": name}
            | (
                {"terms": block.terms.tolist(), "targets": block.targets.tolist()}
                if block.n_rows < 1000
                else {
                    "stream": "many" if block.terms.shape[1] > 2 else "sampled",
                    "n_rows": block.n_rows,
                    "n_terms": block.terms.shape[1],
                    "ones": np.flatnonzero(block.targets)[:20].tolist(),
                }
            )
            | ({} if block.weights is None else {"weights": block.weights.tolist()})
            | ({} if block.offset is None else {"offset": block.offset.tolist()})
            | fit_vector(block, loss, ridge)
            for name, (block, loss, ridge) in cases().items()
        ],
    }


if __name__ == "__main__":
    PATH.write_bytes(canonical_json(vectors()) + b"\n")
    print(f"{PATH}: {PATH.stat().st_size:,} bytes")
