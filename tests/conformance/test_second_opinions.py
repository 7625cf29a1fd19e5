"""Other people's programs look at what replearn writes: a schema, and a database."""

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import replearn as rl
from replearn.codes.canonical import canonical_json
from replearn.errors import InvalidFile
from tests.golden.test_files import recorded

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "verify" / "model.schema.json").read_text("utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
CASES = recorded()

# ---------------------------------------------------------------- the schema


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_recorded_files_have_the_shape(case: dict[str, Any]) -> None:
    VALIDATOR.validate(case["file"])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values of a document, but for what may be anything."""
    if path in (("provenance",), ("protocol",)):
        return []
    found = [path] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value[:3]):
            found += places(inner, (*path, place))
    return found


ODD = [None, True, 0, -1, 1.5, 2**53 + 2, "", "0.5", "-1e400", "none", [], [1], {}, {"a": 1}]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_replearn_reads_has_the_shape(tmp_path: Path, data: st.DataObject) -> None:
    """One value replaced, removed or added: what the reader takes, the schema takes too."""
    document = copy.deepcopy(data.draw(st.sampled_from(CASES))["file"])
    *above, last = data.draw(st.sampled_from(places(document)))
    holder: Any = document
    for step in above:
        holder = holder[step]
    kind = data.draw(st.sampled_from(["replace", "remove", "add"]))
    if kind == "replace":
        holder[last] = data.draw(st.sampled_from(ODD))
    elif kind == "remove":
        del holder[last]
    elif isinstance(holder, dict):
        holder["more"] = 1
    else:
        holder.append(data.draw(st.sampled_from(ODD)))
    if "model" in document:
        document["fingerprint"] = hashlib.sha256(canonical_json(document["model"])).hexdigest()
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    try:
        rl.load(path)
    except InvalidFile:
        return
    VALIDATOR.validate(document)


# ---------------------------------------------------------------- DuckDB

HALFSPACES = [case for case in CASES if case["name"] != "boost, majority"]  # which has no SQL


@pytest.mark.parametrize("case", HALFSPACES, ids=lambda case: case["name"])
def test_duckdb_gives_the_same_labels(case: dict[str, Any], tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    path = tmp_path / "model.json"
    path.write_text(json.dumps(case["file"]), encoding="utf-8")
    model = rl.load(path)
    columns = _columns(model, case["rows"])
    database = duckdb.connect()
    kinds = ", ".join(
        f'"{name}" {"VARCHAR" if any(isinstance(v, str) for v in cells) else "DOUBLE"}'
        for name, cells in columns.items()
    )
    database.execute(f'CREATE TABLE "rows" (place INTEGER, {kinds})')
    marks = ", ".join("?" * (len(columns) + 1))
    for place, cells in enumerate(zip(*columns.values(), strict=True)):
        database.execute(f'INSERT INTO "rows" VALUES ({marks})', [place, *cells])
    sql = rl.to_sql(model, table="rows")
    if len(case["file"]["model"]["classes"]) > 2:  # a label; there is no single score
        found = database.execute(f'SELECT {sql.label} FROM "rows" ORDER BY place')
        assert [label for (label,) in found.fetchall()] == case["labels"]
        return
    found = database.execute(f'SELECT {sql.label}, {sql.score} FROM "rows" ORDER BY place')
    labels, scores = zip(*found.fetchall(), strict=True)
    assert list(labels) == case["labels"]
    wanted = [float.fromhex(score) for score in case["scores"]]
    assert np.allclose(np.array(scores, float), wanted, rtol=1e-9, atol=1e-9)


def _columns(model: rl.Model, rows: list[Any]) -> dict[str, list[Any]]:
    if isinstance(rows[0], dict):
        return {name: [row[name] for row in rows] for name in rows[0]}
    names = model.feature_names or [f"x{i}" for i in range(len(rows[0]))]
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}
