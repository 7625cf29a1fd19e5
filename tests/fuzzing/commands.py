"""The command line."""

import contextlib
import io
import json
import os
import random
import re
from pathlib import Path
from typing import Any

from replearn.errors import ReplearnError
from tests.fuzzing.choices import choice_documents, with_candidates
from tests.fuzzing.coalitions import sum_documents
from tests.fuzzing.garbling import hashed, hostile_json, json_text, sealed
from tests.fuzzing.judging import require
from tests.fuzzing.models import model_documents
from tests.fuzzing.paths import odd_path
from tests.fuzzing.protocols import logistic_protocols, protocol_documents, with_public_seed
from tests.fuzzing.samples import TABLE
from tests.fuzzing.tables import hostile_csv

_ARGUMENTS = ["", "-", "--", "x", "0", "1", "-1", "nan", "inf", "1e400", "1e-400", "0.3", "auto",
"9" * 5000,
              "é", "\n", "\x1b[31m", "a\nb", "\udc80", "label", "--json", "--help", "-h", "2",
              "3", "1e9",
              "practical", "certified", "paper", "svm", "sgd", "net", "boost-foam", "=",
              "ab" * 32]  # fmt: skip


_OPTIONS = {
    "fit": ["--target", "--out", "--algorithm", "--margin", "--max-error", "--max-disagreement",
            "--failure-prob", "--mode", "--no-intercept", "--seed", "--protocol", "--lock",
            "--json",
            "--assume-shuffled", "--random-state", "--features", "--memory", "--scratch",
            "--expect", "--weights", "--hint", "--lead", "--unsafe",
            "--checkpoint", "--checkpoint-every"],
    "predict": ["--out", "--json"],
    "compare": ["--commit", "--reveal", "--site", "--out", "--json"],
    "show": ["--json", "--report"],
    "shuffle": ["--out", "--seed", "--random-state", "--scratch", "--json"],
    "audit": ["--target", "--protocol", "--margin", "--question", "--confidence", "--checkpoint",
    "--json"],
    "plan": ["--margin", "--max-error", "--features", "--mode", "--json", "--pilot", "--target",
    "--out", "--register", "--draw-date", "--public-value", "--samples-per-site", "--sites"],
    "export": ["--out", "--json", "--format"],
    "completion": ["--json"],
    "sums": ["--protocol", "--out", "--site", "--after", "--round", "--few-rows", "--features",
             "--assume-shuffled", "--json"],
    "combine": ["--protocol", "--out", "--after", "--hint", "--expect", "--report", "--json"],
    "choose": ["--protocol", "--out", "--candidates", "--publish", "--samples-per-site", "--sites",
               "--scoring", "--seed", "--register", "--draw-date", "--public-value", "--expect",
               "--max-disagreement", "--target", "--json"],
    "evaluate": ["--protocol", "--target", "--by", "--confidence", "--report", "--json"],
    "check": ["--protocol", "--target", "--json"],
    "bundle": ["--out", "--target", "--json"],
    "nothing": ["--json"],
}  # fmt: skip


def command_line(rng: random.Random, folder: Path) -> None:
    """Odd arguments and files: exit code 0 to 3, and one line if something is wrong."""
    from replearn.cli import main

    arguments = _odd_arguments(rng, folder)
    # as the streams of a process are, for arguments that are not UTF-8
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors, write_through=True)
        for errors in ("strict", "backslashreplace")
    )
    here = os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code: Any = main(arguments)
            except SystemExit as problem:
                code = problem.code
    finally:
        os.chdir(here)
    printed, told = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    said = f"{arguments!r:.600} exits with {code}: {told[-1500:]!r}"
    require(code in (0, 1, 2, 3), said)
    lines = told.split("\n")[:-1]
    complaints = [line for line in lines if not line.startswith("replearn: warning: ")]
    require("Traceback" not in told, said)
    require(len(complaints) == (code == 2), said)
    steers = re.compile(r"[\x00-\x1f\x7f-\x9f]")
    require(not any(map(steers.search, lines)), said)
    require(all(len(line) < 20_000 for line in lines), said[:3000])
    if code == 2:
        raise ReplearnError(complaints[0])
    if code == 0 and "--json" in arguments and "--help" not in arguments and "-h" not in arguments:
        json.loads(printed)


def _odd_arguments(rng: random.Random, folder: Path) -> list[str]:
    command = rng.choice([*_OPTIONS, "fit", "fit", "show", "predict"])
    data, model, protocol = folder / "a.csv", folder / "a.model.json", folder / "study.json"
    good = rng.random() < 0.5
    data.write_bytes(TABLE if good else hostile_csv(rng))
    documents = list(model_documents())
    model.write_bytes(
        json_text(documents[-1]).encode() if good else hostile_json(rng, documents, sealed)
    )
    protocol.write_bytes(hostile_json(rng, list(protocol_documents()), with_public_seed))
    study, choice, sites = _coalition(rng, folder, good)
    values = [
        *_ARGUMENTS,
        str(data),
        str(model),
        str(protocol),
        str(study),
        str(choice),
        *map(str, sites),
        str(folder),
        str(folder / "new.csv"),
        "new.json",
    ]
    words = {
        "fit": [str(data), "--target", "label", "--jobs", "1"],
        "predict": [str(model), str(data)],
        "compare": [str(model), str(model)],
        "show": [str(model)],
        "shuffle": [str(data), "--out", "out.csv"],
        "audit": [str(data), "--target", "label", "--pairs", "2", "--jobs", "1"],
        "plan": ["--margin", "0.3", "--features", "3"],
        "export": [str(model)],
        "completion": ["bash"],
        "sums": [str(data), "--protocol", str(study), "--out", "new.sums.json"],
        "combine": [*map(str, sites), "--protocol", str(study), "--out", "new.json"],
        "choose": [str(data), "--protocol", str(choice), "--out", "new.choice.json"],
        "evaluate": [str(model), str(data), "--target", "label"],
        "check": [str(data), "--protocol", str(study)],
        "bundle": [str(model), str(model), "--out", "bundle"],
    }.get(command, [])
    arguments = [command, *words]
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        arguments.append(rng.choice(_OPTIONS[command]))
        if rng.random() < 0.8:
            value = odd_path(rng, folder) if rng.random() < 0.15 else rng.choice(values)
            arguments.append(value)
    if rng.random() < 0.2 and len(arguments) > 1:
        arguments[rng.randrange(len(arguments))] = rng.choice(values)
    return arguments


def _coalition(rng: random.Random, folder: Path, good: bool) -> tuple[Path, Path, list[Path]]:
    """Files of studies: a protocol, one of a choice, and sums of two sites."""
    with_candidates(folder)
    study, choice = folder / "logistic.json", folder / "choice.json"
    study.write_text(json_text(logistic_protocols()[0].content()), "utf-8")
    documents = list(choice_documents()[0])
    choice.write_bytes(
        json_text(documents[0]).encode() if good else hostile_json(rng, documents, with_public_seed)
    )
    sites = []
    for number, document in enumerate(sum_documents()["alone"]):
        sites.append(folder / f"{number}.sums.json")
        sites[-1].write_bytes(
            json_text(document).encode() if good else hostile_json(rng, [document], hashed)
        )
    return study, choice, sites
