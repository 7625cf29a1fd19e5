"""A data owner's policy: it holds for whatever any command writes."""

import json
import os
import re
from importlib import import_module
from pathlib import Path

import pytest

from replearn.cli import COMMANDS
from replearn.cli.command import Parser
from tests.contract.commands import a_round, replearn

RULES = {
    "format": "replearn/policy",
    "version": 1,
    "least_rows": 0,
    "least_count": 0,
    "most_coefficients_per_row": "1",
    "may_leave": ["study", "model", "sums", "shares", "predictions", "page", "rows"],
}

#: Whatever a command can write ({f}), the kind that a policy calls it, and whether it knows rows.
LEAVING = [
    ("publish a.csv --target died --out {f}", "study", True),
    ("publish a.csv --target died --out {f} --registered --rows 9000", "study", True),
    ("publish a.csv --target died --out {tmp}/s.json --page {f}", "page", True),
    ("publish a.csv --target died --out {tmp}/s.json --page {f}", "model", True),
    ("replicate study.json b.csv --out {f}", "model", True),
    ("replicate study.json b.csv --page {f}", "page", True),
    ("replicate study.json b.csv --page {f}", "model", True),
    ("replicate p.study.json other.csv --out {f}", "model", True),
    ("replicate p.study.json other.csv --page {f}", "page", True),
    ("check study.json b.csv --page {f}", "page", True),
    ("bundle study.json --out {f}", "study", True),
    ("show a.model.json --page {f}", "page", False),
    ("show a.model.json --page {f}", "model", False),
    ("show study.json --page {f}", "study", False),
    ("compare a.model.json b.model.json --page {f}", "page", False),
    ("evaluate a.model.json new.csv --page {f}", "page", True),
    ("update a.model.json b.csv --slope --out {f}", "model", True),
    ("update a.model.json b.csv --constant --page {f}", "page", True),
    ("predict a.model.json new.csv --out {f}", "predictions", True),
    ("predict a.model.json new.csv", "predictions", True),
    ("export a.model.json --out {f}.csv", "model", False),
    ("audit b.csv --study study.json --pairs 1 --rows 1200 --page {f}", "page", True),
    ("sums study.json lab.parquet --out {f}", "sums", True),
    ("combine study.json a.sums.json b.sums.json third.sums.json --out {f}", "model", True),
    ("combine study.json --begin --out {f}", "model", False),
    (
        "combine study.json a.sums.json b.sums.json third.sums.json --out {tmp}/s.json --page {f}",
        "page",
        False,
    ),
    ("fit data.csv --target y --margin 0.4 --out {f}", "model", True),
    ("fit data.csv --target y --margin 0.4 --bits 2 --study-out {f}", "study", True),
    ("fit data.csv --target y --margin 0.4 --page {f}", "page", True),
    ("plan --features 50 --page {f}", "page", False),
    ("table --page {f}", "page", False),
    ("shuffle a.csv --out {f}.csv", "rows", True),
]


def test_whatever_a_command_writes_is_under_the_policy() -> None:
    found = set()
    for command in COMMANDS:
        parser = Parser()
        import_module(f"replearn.cli.{command}").add_arguments(parser)
        options = {name for action in parser._actions for name in action.option_strings}
        found |= {(command, name) for name in options & {"--out", "--page", "--study-out"}}
    calls = [re.split(r"[ {}]+", call) for call, _, _ in LEAVING]
    assert found == {(call[0], word) for call in calls for word in call if (call[0], word) in found}


@pytest.mark.parametrize(("call", "kind", "has_rows"), LEAVING)
def test_policy(
    inside: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    kind: str,
    has_rows: bool,
) -> None:
    path = tmp_path / "policy.json"
    monkeypatch.setenv("REPLEARN_POLICY", str(path))
    path.write_text(json.dumps(RULES))
    if "p.study.json" in call:
        fit = "fit data.csv --target y --margin 0.4 --bits 2 --study-out p.study.json"
        replearn(*fit.split())
    if "sums.json" in call:
        a_round(with_state=False)
    words = call.format(f=tmp_path / "f", tmp=tmp_path).split()
    others = [name for name in RULES["may_leave"] if name != kind]
    few = {"least_rows": 1 << 30} if has_rows else {}
    for change, rule in (({"may_leave": others}, "lets"), (few, "at least 1,073,741,824 rows")):
        path.write_text(json.dumps(RULES | change))
        code, text, errors = replearn(*words)
        if change:
            assert (code, text) == (2, ""), errors
            assert f"policy {rule}" in errors or rule in errors
            assert os.listdir(tmp_path) == ["policy.json"]
        else:
            assert code == 0, errors


def test_shares_may_leave_where_sums_may_not(
    inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data owner asks for secret shares; whoever lets sums leave lets shares leave, too."""
    path = tmp_path / "policy.json"
    monkeypatch.setenv("REPLEARN_POLICY", str(path))
    sums = f"sums study.json b.csv --lab b --out {tmp_path}/b.json"
    shares = f"{sums} --shares a,b,c"
    added = f"combine study.json {tmp_path}/b.for-b.json --out {tmp_path}/b.share.json"
    for kinds, codes in ((["shares"], (2, 0)), (["sums"], (0, 0)), (["model"], (2, 2))):
        path.write_text(json.dumps(RULES | {"may_leave": kinds}))
        assert tuple(replearn(*call.split())[0] for call in (sums, shares)) == codes
        _, _, errors = replearn(*added.split())
        assert ("policy lets" in errors) == (codes[1] == 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"most_coefficients_per_row": "0.001"}, "0.001 coefficients"),
        ({"least_count": 600}, "600 rows of each level"),
    ],
)
@pytest.mark.parametrize(
    "call", ["publish a.csv --target died --out {}", "bundle study.json --out {}"]
)
def test_rules_of_a_policy(
    inside: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, object],
    words: str,
    call: str,
) -> None:
    (tmp_path / "replearn.policy.json").write_text(json.dumps(RULES | change))
    for name in ("a.csv", "study.json"):
        (tmp_path / name).write_bytes((inside / name).read_bytes())
    monkeypatch.chdir(tmp_path)  # where a policy is found, too
    code, _, errors = replearn(*call.format("out").split())
    assert code == 2
    assert words in errors
    assert not (tmp_path / "out").exists()


def test_a_policy_beside_the_table_holds_and_none_is_passed_by(
    inside: Path, tmp_path: Path
) -> None:
    """Not in the working folder; a link to nowhere; two policies of which one forbids."""
    table, policy = tmp_path / "b.csv", tmp_path / "replearn.policy.json"
    table.write_bytes((inside / "b.csv").read_bytes())
    call = ["predict", inside / "b.model.json", table]
    assert replearn(*call)[0] == 0
    policy.write_text(json.dumps(RULES | {"may_leave": ["study"]}))
    code, text, errors = replearn(*call)
    assert (code, text) == (2, "")
    assert "policy lets study leave" in errors

    # under a different name elsewhere the table is the same one
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (elsewhere / "linked.csv").symlink_to(table)
    code, text, errors = replearn(*call[:2], elsewhere / "linked.csv")
    assert (code, text) == (2, "")
    assert "policy lets study leave" in errors
    policy.unlink()
    policy.symlink_to(tmp_path / "nowhere")
    assert replearn(*call)[:2] == (2, "")
