"""Recorded tables of two labs, and small studies of them: what other languages must get too."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from replearn import ReplicableLogisticClassifier
from replearn.datasets import load_readmission
from replearn.documents import decimal_text
from replearn.glm import (
    GLM,
    Bernoulli,
    Between,
    Coordinates,
    GlmDesign,
    GlmModel,
    GlmPromise,
    Loss,
    Multinomial,
    Poisson,
    Summary,
    fit,
)
from replearn.glm.losses import Gaussian
from replearn.study import (
    GlmReplication,
    GlmStudy,
    Opening,
    RowEncoder,
    TableRows,
    read_rows,
    replicate,
)
from replearn.study.passes import table_of
from replearn.study.study import sealed_commitment
from replearn.tables import CsvOptions, Profile, learn_encoding, make_profile, open_table
from replearn.words import Row
from replearn.words import Table as FactTable


@dataclass(frozen=True)
class Case:
    """A kind of table, and how its study is made."""

    n_rows: int = 800
    target: str = "died"
    loss: Loss = Bernoulli()  # noqa: RUF009
    weights: str | None = None
    offset: str | None = None
    class_weight: tuple[str, ...] | None = None
    csv: CsvOptions = CsvOptions()  # noqa: RUF009
    encoding: Any = ()
    products_halved: int = 0
    n_directions: int = 0
    style: str = "plain"
    features: tuple[str, ...] = ()
    bits: int = 3
    n_centres: int = 0
    constant: Any = None


CASES = {
    "text levels and missing values": Case(),
    "splines": Case(encoding={"basis": "splines"}),
    "products": Case(encoding={"interactions": "all"}, n_rows=1500),
    "weights": Case(weights="mass"),
    "class weights": Case(class_weight=("0.6", "1.7")),
    "weights of both kinds": Case(weights="mass", class_weight=("3", "1")),
    "many classes": Case(target="ward", loss=Multinomial(4)),
    "numbers": Case(target="bmi", loss=Gaussian("25", "4")),
    "counts": Case(target="visits", loss=Poisson(6), offset="exposure"),
    "typical centres": Case(n_centres=1, bits=8),
    "five centres": Case(n_centres=5, bits=8),
    "far values": Case(style="far"),
    "ties of rounding": Case(style="ties"),
    "quoted line ends": Case(style="quoted"),
    "byte order mark and Windows line ends": Case(style="windows"),
    "decimal commas": Case(style="commas", csv=CsvOptions(";", ",", ".")),
    "directions": Case(n_directions=3),
    "halved products": Case(encoding={"interactions": [("age", "bmi")]}, products_halved=2),
}


#: Labs agree on slopes, and each has constants of its own.
LOCAL_CASES = {
    "two classes": Case(constant="local"),
    "weights of both kinds": Case(weights="mass", class_weight=("3", "1"), constant="local"),
    "many classes": Case(target="ward", loss=Multinomial(4), constant="local"),
    "numbers": Case(target="bmi", loss=Gaussian("25", "4"), constant="local"),
    "counts": Case(target="visits", loss=Poisson(6), offset="exposure", constant="local"),
    "directions": Case(n_directions=3, constant="local"),
    "centres": Case(n_centres=5, bits=8, constant="local"),
}


def write_table(path: Path, case: Case, seed: int, n_rows: int | None = None) -> Path:
    """Invented patients of one lab, in a file as the case has it."""
    n = n_rows or case.n_rows
    rng = np.random.default_rng(seed)
    age = np.round(rng.normal(60, 12, n), 1)
    bmi = np.round(rng.normal(25, 4, n) + (age - 60) / 20, 2)
    if case.style == "far":
        bmi[:: n // 9] *= 1e6
    texts = [f"{v:.1f}" for v in age]
    if case.style == "ties":  # half-way between two whole numbers, up to the last bit
        units = np.floor((age - 60) / 12 * 4096) + 0.5
        texts = [repr(v) for v in (60 + 12 * units / 4096).tolist()]
    ward = rng.choice(["A", "B", "C d", "É"], n, p=[0.4, 0.3, 0.2, 0.1])
    score = (age - 60) / 12 + (ward == "B") - 0.3
    columns: dict[str, list[str]] = {
        "age": texts,
        "bmi": [f"{v:.2f}" for v in bmi],
        "ward": list(ward),
        "smoker": list(np.where(rng.random(n) < 0.3, "TRUE", "false")),
        "mass": [f"{v:.3f}" for v in np.maximum(rng.gamma(2, 0.7, n) - 0.2, 0)],
        "exposure": [f"{v:.4f}" for v in rng.normal(0, 0.5, n)],
        "visits": [str(v) for v in rng.poisson(np.exp(score / 3 + 0.5))],
        "died": [str(int(v)) for v in rng.logistic(size=n) < score],
        "note": ["x"] * n,
    }  # fmt: skip
    if case.target != "bmi":
        columns["bmi"][::7] = ["NA"] * len(columns["bmi"][::7])
    sign, end = ",", "\n"
    if case.style == "quoted":
        columns["note"] = ['"one, two\nthree ""four"""'] * n
        columns["ward"] = [f'"{text}"' for text in columns["ward"]]
    if case.style == "windows":
        end = "\r\n"
    if case.style == "commas":
        sign = ";"
        columns = {name: [t.replace(".", ",") for t in texts] for name, texts in columns.items()}
    lines = [sign.join(columns), *(sign.join(row) for row in zip(*columns.values(), strict=True))]
    text = end.join(lines) + end
    path.write_bytes((("\ufeff" if case.style == "windows" else "") + text).encode())
    return path


def make_study(path: Path, case: Case) -> tuple[GlmStudy, GlmModel]:
    """A study of the table, with cells of a plausible width, and the original's model."""
    features = case.features or [n for n in ("age", "bmi", "ward", "smoker") if n != case.target]
    table = open_case(path, case, features)
    learned = learn_encoding(table, **dict(case.encoding))
    learned = replace(
        learned, encoding=replace(learned.encoding, products_halved=case.products_halved)
    )
    if case.style == "ties":
        age, *others = learned.encoding.columns
        encoding = replace(
            learned.encoding, columns=(replace(age, centre="60", spread="12"), *others)
        )
        learned = replace(learned, encoding=encoding)
    classes = {"died": (0, 1), "ward": ("A", "B", "C d", "É")}.get(case.target)
    n_terms = learned.encoding.n_terms
    directions = None
    if case.n_directions:
        rng = np.random.default_rng(5)
        directions = rng.integers(-3000, 3000, (case.n_directions, n_terms))
        n_terms = case.n_directions
    q = case.loss.n_scores * (n_terms + 1)
    design = GlmDesign(
        target=case.target,
        encoding=learned.encoding,
        loss=case.loss,
        ridge="0.003",
        coordinates=Coordinates.of(np.eye(case.loss.n_scores), np.eye(n_terms + 1), 0.0),
        widths=("1",) * q,
        bits=0,
        seed="a test",
        classes=classes,
        class_weight=case.class_weight,
        weights=case.weights,
        offset=case.offset,
        directions=directions,
        constant=case.constant,
    )
    rows = read_rows(TableRows(table, RowEncoder.of(design)))
    summary = Summary.of(rows, case.loss)
    (block,) = rows.blocks()
    X = np.column_stack([np.ones(block.n_rows), block.terms / 4096])
    information = case.loss.information(summary.shares)
    coordinates = Coordinates.of(information, X.T @ X / block.n_rows, 0.003)
    n, bits = summary.n_rows, case.bits
    between = Between(np.full(q, 0.05 if case.n_centres else 0.0), case.n_centres)
    widths = 1.05 * GLM.sizes(GlmPromise(0.01, bits, n, n), np.ones(q), between).widths
    design = replace(
        design, coordinates=coordinates, widths=tuple(map(decimal_text, widths)), bits=bits
    )
    theta = fit(rows, case.loss, design.ridge, summary)
    codes, sketch = (
        np.where(design.is_agreed, one, 0)
        for one in design.cells.publish(design.coordinates.of_theta(theta))
    )
    design = replace(design, sketch=sketch)
    model = GlmModel(design, codes).with_constants_of(rows)
    labels = np.concatenate([block.targets for block in rows.blocks()])
    profile: Profile = make_profile(learned, labels.astype(np.int64) if classes else labels)
    study = GlmStudy(
        design,
        "0.01",
        n,
        n,
        ("1",) * q,
        tuple(map(decimal_text, between.deviations)),
        between.n_centres,
        profile,
        model.fingerprint,
        model.without_constants.fingerprint,
    )
    return study, model


def open_case(path: Path, case: Case, features: Any) -> Any:
    return open_table(
        path,
        target=case.target,
        weights=case.weights,
        offset=case.offset,
        columns=features,
        csv=case.csv,
    )


def replicated(
    study: GlmStudy, path: Path, case: Case, opened: GlmModel | None = None
) -> tuple[GlmModel, GlmReplication]:
    """What Python makes of a second lab's table."""
    return replicate(study, open_case(path, case, study.design.encoding.names), opened)


def items(facts: Iterable[Any]) -> list[Any]:
    """Sentences, names with their values, and tables in words."""
    found: list[Any] = []
    for item in facts:
        if isinstance(item, Row):
            found.append([item.name, item.shown])
        elif isinstance(item, FactTable):
            rows = [list(row) for row in zip(*(words for _, words, _ in item.columns), strict=True)]
            found.append({"title": item.title, "header": list(item.header), "rows": rows})
        else:
            found.append(item)
    return found


CHANGES = {
    "a different unit": lambda row: row | {"age": f"{float(row['age']) * 12:.1f}"},
    "larger throughout": lambda row: row | {"age": f"{float(row['age']) + 50:.1f}"},
    "very different": lambda row: row | {"age": f"{float(row['age']) ** 2:.0f}"},
    "constant": lambda row: row | {"age": "60", "ward": "A"},
    "missing": lambda row: row | ({"age": ""} if row["age"].endswith("7") else {}),
    "a code": lambda row: row | ({"age": "999"} if row["age"].endswith("7") else {}),
    "a negative code": lambda row: row | ({"age": "-9"} if row["age"].endswith("7") else {}),
    "other levels": lambda row: row | ({"ward": "Z"} if row["age"].endswith("7") else {}),
    "exchanged levels": lambda row: row | {"ward": {"A": "É", "É": "A"}.get(row["ward"], "B")},
    "other labels": lambda row: row | {"died": "1" if float(row["age"]) > 40 else "0"},
}


def mostly_zero(row: dict[str, str]) -> dict[str, str]:
    return row | ({"age": "0"} if row["age"][-1] in "012345" else {})


def rewrite(path: Path, change: Callable[[dict[str, str]], dict[str, str]]) -> Path:
    """Change each row of a file."""
    head, *lines = path.read_text().splitlines()
    rows = [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]
    path.write_text("\n".join([head, *(",".join(change(row).values()) for row in rows)]))
    return path


def strange_columns(folder: Path) -> Iterator[tuple[str, GlmStudy, Path, Case]]:
    """Tables in which a column looks different from the study."""
    case = CASES["text levels and missing values"]
    study, _ = make_study(write_table(folder / "a.csv", case, seed=0), case)
    for name, change in CHANGES.items():
        yield name, study, rewrite(write_table(folder / f"{name}.csv", case, seed=1), change), case

    zeros = rewrite(write_table(folder / "zeros.csv", case, seed=0), mostly_zero)
    path = rewrite(write_table(folder / "far.csv", case, seed=1), mostly_zero)
    rewrite(path, lambda row: row | {"age": f"{30 * float(row['age']):.1f}"})
    yield "the same median", make_study(zeros, case)[0], path, case

    path = write_table(folder / "copies.csv", case, seed=1)
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head, *lines, *lines]))
    yield "copies", study, path, case
    path = folder / "some copies.csv"
    path.write_text("\n".join([head, *lines, *lines[: len(lines) // 4]]))
    yield "some copies", study, path, case


def little_spread(
    folder: Path, cases: dict[str, Case] = CASES
) -> Iterator[tuple[str, GlmStudy, Path, Case]]:
    """Studies that state far less spread than rows have."""
    for number, (name, case) in enumerate(cases.items()):
        study, _ = make_study(write_table(folder / "a.csv", case, seed=number), case)
        study = replace(study, spreads=("0.15",) * study.design.n_numbers)
        yield name, study, write_table(folder / f"spread {number}.csv", case, 100 + number), case


def large_table(path: Path, n_rows: int = 70_000) -> tuple[GlmStudy, Case]:
    """More rows of 12 columns than fit into a batch or a block, and a study of them."""
    rng = np.random.default_rng(40)
    X = rng.normal(size=(n_rows, 12))
    y = rng.logistic(size=len(X)) < X[:, :5].sum(axis=1)
    names = tuple(f"x{i}" for i in range(12))
    head = ",".join([*names, "died"])
    np.savetxt(path, np.column_stack([X, y]), "%.4f", ",", header=head, comments="")
    case = Case(features=names)
    return make_study(path, case)[0], case


def opening_of(study: GlmStudy, model: GlmModel, nonce: str) -> tuple[GlmStudy, Opening]:
    """A study whose commitments are sealed, and what opens it."""
    sealed = replace(
        study,
        sealed=True,
        commitment=sealed_commitment(nonce, model.fingerprint),
        slopes_commitment=sealed_commitment(nonce, model.without_constants.fingerprint),
    )
    return sealed, Opening(sealed.fingerprint, model.fingerprint, nonce)


def bait(study: GlmStudy) -> GlmStudy:
    """A study that any labels replicate: cells are as wide as centres that differ by far."""
    n, bits = study.design.n_numbers, study.design.bits
    between = Between(np.full(n, 2.0), 1)
    promise = replace(study.promise, max_disagreement=0.01)
    widths = 1.05 * GLM.sizes(promise, study.stated_spreads, between).widths
    design = replace(study.design, widths=tuple(map(decimal_text, widths)))
    sketch = np.floor((design.cells.shifts - 0.45) % 1 * 2**bits).astype(np.int64)
    design = replace(design, sketch=sketch)
    model = GlmModel(design, design.codes(np.zeros((1, n))))
    return replace(
        study,
        design=design,
        between=("2",) * n,
        n_centres=1,
        commitment=model.fingerprint,
        slopes_commitment=model.without_constants.fingerprint,
    )


def tables_of_all_verdicts() -> dict[str, Any]:
    """Patients that confirm a model, contradict it, have a different base risk, or are others."""
    coins = np.random.default_rng(0)
    table = load_readmission("Birchwood", 4000)
    died, names = table.readmitted, [name for name in table.columns if name != "readmitted"]
    permuted = table.copy()
    for name in names:
        permuted[name] = coins.permutation(table[name].to_numpy())
    one_permuted = table.assign(prior_admissions=permuted.prior_admissions)
    turned = {"I": "IV", "II": "III", "III": "II", "IV": "I"}
    return {
        "confirmed": table.head(1500),
        "unsupported": one_permuted.head(500),
        "undecided": one_permuted.head(350),
        "contradicted": permuted,
        "contradicted, without the others": table.assign(nyha=table.nyha.map(turned)),
        "same slopes": table[(died == 1) | (coins.random(len(table)) < 0.3)],
        "same slopes, and codes": table[(died == 1) | (coins.random(len(table)) < 0.55)],
        "confirmed, as centres differ": table[(died == 1) | (coins.random(len(table)) < 0.75)],
        "different": table.head(1500).assign(readmitted=1 - died),
    }


def replications_of_all_verdicts(
    folder: Path,
) -> Iterator[tuple[str, GlmStudy, Path, GlmReplication]]:
    """Patients of each kind, and what Python says of them."""
    ashford = load_readmission("Ashford", 3000)
    # wide cells, so that patients who contradict the model get it all the same
    first = ReplicableLogisticClassifier(replication_rows=400)
    study = first.fit(ashford.drop(columns="readmitted"), ashford["readmitted"]).study_
    # and a study that excuses whatever centres may differ by
    X, y = ashford.drop(columns="readmitted"), ashford["readmitted"]
    lenient = ReplicableLogisticClassifier(replication_rows=400, between=(0.2, 0.1)).fit(X, y)
    for verdict, table in tables_of_all_verdicts().items():
        path = folder / f"{verdict}.csv"
        table.to_csv(path, index=False)
        one = lenient.study_ if verdict.endswith("others") else study
        replication = replicate(one, table_of(one.design, path))[1]
        assert replication.verdict == verdict.split(",")[0]
        if verdict.endswith("others"):
            assert replication.support.worse_than == "prior_admissions alone"
        if verdict.startswith("confirmed"):
            told = "differs as centres do" in replication.facts().text(details=True)
            assert told == (verdict != "confirmed")
        yield verdict, one, path, replication
