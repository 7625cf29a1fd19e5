"""Choice files in the commands that also take model files."""

import argparse
import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from replearn.cli.files import (
    read_labelled_columns,
    save_page,
    target_of,
    terminal_progress,
    writing,
)
from replearn.cli.options import PROMISE, Parser, given, seconds, warn_of_formulas
from replearn.cli.outcome import DIFFERENT, DONE, Outcome
from replearn.cli.text import aligned, command_line
from replearn.errors import ReplearnError
from replearn.terminal import printable, printable_lines

if TYPE_CHECKING:
    from replearn.audits.findings import AuditResult
    from replearn.codes.choice import Choice
    from replearn.files.onnx_model import OnnxLimits
    from replearn.study.choice_protocol import ChosenModel


def add_choice_models(parser: Parser) -> None:
    """Add where the candidates of a choice are, and what an ONNX model may cost."""
    parser.add(
        "--models FOLDER",
        "of a choice: where the candidates' files are (default: the folder of that file)",
    )
    parser.add(
        "--model-seconds SECONDS",
        "of a choice: time for an ONNX model to load, and for each 16,384 rows (default 60)",
        type=seconds,
    )


def limits_of(options: argparse.Namespace) -> "OnnxLimits":
    """What an ONNX model may cost."""
    from replearn.files.onnx_model import OnnxLimits

    return (
        OnnxLimits() if options.model_seconds is None else OnnxLimits(seconds=options.model_seconds)
    )


def refuse_choice_options(options: argparse.Namespace) -> None:
    """Refuse what is for choices where there is none."""
    if idle := given(options, "models", "model_seconds"):
        raise ReplearnError(f"{idle[0]} is for choices, got a model or its protocol. Leave it out.")


def folder_of(options: argparse.Namespace, file: str) -> Path:
    """Where the files of candidates are."""
    return Path(file).parent if options.models is None else Path(options.models)


def _chosen(options: argparse.Namespace) -> "ChosenModel":
    from replearn.files.choicefile import load_choice
    from replearn.study.choice_protocol import ChosenModel

    choice = load_choice(options.model)
    return ChosenModel(choice, folder_of(options, options.model), limits_of(options))


# --- show and compare ---------------------------------------------------------------------------


def show_choice(options: argparse.Namespace) -> Outcome:
    """What is in a choice file."""
    from replearn.files.choicefile import load_choice
    from replearn.files.jsonfile import read_json

    if options.report is not None:
        raise ReplearnError("--report is for models, got a choice. Leave it out.")
    if options.large:
        raise ReplearnError("--large is for models, got a choice, which is small. Leave it out.")
    choice = load_choice(options.model)
    provenance = read_json(options.model)["provenance"]
    lines = [
        ("choice", str(choice)),
        ("classes", ", ".join(map(repr, choice.classes))),
        ("seed", choice.seed),
        *(
            (f"candidate {place}", f"{one.name}  {one.sha256 or 'no hash'}")
            for place, one in enumerate(choice.candidates, start=1)
        ),
        ("provenance", json.dumps(provenance)),
        ("fingerprint", choice.fingerprint),
    ]
    data = {
        "fingerprint": choice.fingerprint,
        "choice": choice.content(),
        "chosen": choice.name,
        "provenance": provenance,
    }
    return Outcome(aligned(lines), data)


def compare_choices(paths: list[str]) -> Outcome:
    """Whether choice files hold the same choice."""
    from replearn.codes.choice import choice_differences
    from replearn.files.choicefile import load_choice

    choices = {path: load_choice(path) for path in paths}
    groups: dict[str, list[str]] = {}
    for path, choice in choices.items():
        groups.setdefault(choice.fingerprint, []).append(path)
    ordered = sorted(groups.values(), key=len, reverse=True)
    first = choices[ordered[0][0]]
    lines, found = [], []
    if len(ordered) == 1:
        lines.append(f"same choice: {first}")
    for group in ordered[1:]:
        differences = choice_differences(first, choices[group[0]])
        found.append({"sites": group, "differences": list(differences)})
        lines.append(f"different choices: {'; '.join(differences)}")
    lines += [f"  {one.fingerprint}  {path}  {one.name}" for path, one in choices.items()]
    same = len(ordered) == 1
    data = {
        "same": same,
        "groups": [
            {
                "fingerprint": choices[group[0]].fingerprint,
                "sites": group,
                "chosen": choices[group[0]].name,
            }
            for group in ordered
        ],
        "against_first": found,
        "files": paths,
        "fingerprints": [one.fingerprint for one in choices.values()],
    }
    return Outcome(printable_lines("\n".join(lines)), data, DONE if same else DIFFERENT)


# --- predict and evaluate -----------------------------------------------------------------------


def predict_choice(options: argparse.Namespace) -> Outcome:
    """Labels for new rows by the chosen model."""
    from replearn.files.atomic import replacing
    from replearn.sources import read_columns

    chosen = _chosen(options)
    with terminal_progress(f"reading {Path(options.data).name}"):
        X, _ = read_columns(options.data)
    labels, scores = chosen.labels_and_scores(X)
    counts = {label: int((labels == label).sum()) for label in chosen.classes_.tolist()}
    data = {
        "fingerprint": chosen.fingerprint_,
        "chosen": chosen.choice.name,
        "rows": int(labels.size),
        "counts": {str(label): count for label, count in counts.items()},
    }
    if options.out is None:
        text = io.StringIO()
        _write(text, chosen.choice, labels, scores, options)
        return Outcome(text.getvalue().rstrip("\n"), data | {"predictions": labels.tolist()})
    with (
        writing(options.out),
        replacing(options.out) as beside,
        beside.open("w", newline="") as out,
    ):
        _write(out, chosen.choice, labels, scores, options)
    shares = ", ".join(f"{count:,} {label}" for label, count in counts.items())
    line = f"{labels.size:,} rows by {chosen.choice.name!r}: {shares}; written to {options.out}"
    return Outcome(printable(line), data)


def _write(
    out: TextIO, choice: "Choice", labels: Any, scores: Any, options: argparse.Namespace
) -> None:
    """A line for each row: the label, and its probabilities by class, or its score."""
    from replearn.exports.coefficients import harmless

    written = {label: harmless(label) if options.spreadsheet else label for label in choice.classes}
    warn_of_formulas(choice.classes, options)
    names: list[str] = []
    if scores is not None:
        names = ["score"] if scores.ndim == 1 else [f"probability {c}" for c in written.values()]
        scores = scores.reshape(labels.size, -1)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["prediction", *names])
    for place, label in enumerate(labels.tolist()):
        row = [] if scores is None else [f"{score:.9g}" for score in scores[place]]
        writer.writerow([written[label], *row])


def evaluate_choice(options: argparse.Namespace) -> Outcome:
    """What the chosen model is worth; its report knows no coefficients."""
    from replearn.audits.evaluation import evaluate

    if idle := given(options, "protocol", "lock"):
        raise ReplearnError(f"{idle[0]} is for models, got a choice. Leave it out.")
    chosen = _chosen(options)
    target = options.target or target_of(options.model, options.data)
    X, y = read_labelled_columns(options.data, target)
    groups = None
    if options.by is not None:
        if options.by not in X:
            raise ReplearnError(f"--by must name a column of {options.data}, got {options.by!r}.")
        groups = X[options.by]
    found = evaluate(chosen.predictions(X), X, y, by=groups, confidence=options.confidence)
    text = printable_lines(str(found))
    if options.report is not None:
        from replearn.audits.evaluation_page import evaluation_report

        save_page(evaluation_report(found, command_line(options)), options.report)
        text += f"\nreport written to {options.report}"
    return Outcome(text, found.data() | {"report": options.report})


# --- audit --------------------------------------------------------------------------------------


def is_choice_protocol(path: str | None) -> bool:
    """Whether a file claims to be the protocol of a choice."""
    if path is None:
        return False
    from replearn.files.jsonfile import read_json
    from replearn.study.choice_protocol import FORMAT

    try:
        return read_json(path).get("format") == FORMAT
    except (OSError, ReplearnError):  # whoever reads it as another protocol says what is wrong
        return False


def audit_choice(options: argparse.Namespace) -> "AuditResult":
    """How often two halves of these rows choose the same, with the noise that halves need."""
    import math
    from dataclasses import replace

    import numpy as np

    from replearn.audits.auditing import audit
    from replearn.estimators.choice import ReplicableChoiceClassifier, class_numbers
    from replearn.stages.model_scores import NEEDS
    from replearn.study.choice_protocol import ChoiceProtocol

    _refuse_training(options)
    protocol = ChoiceProtocol.load(options.protocol, options.lock)
    estimator = protocol.estimator(folder_of(options, options.protocol), limits_of(options))
    X, y = read_labelled_columns(options.data, options.target or protocol.target)
    classes = np.array(protocol.classes)
    need = NEEDS[protocol.scoring.name]
    # what the candidates predict is the same in every pair: ask them once
    outputs = [np.asarray(getattr(one, need)(X, classes)) for one in estimator.candidates]
    table = np.column_stack(outputs).astype(np.float64)
    width = outputs[0].shape[1] if outputs[0].ndim == 2 else 1
    columns: list[Any] = [
        (one.name, tuple(range(start, start + width)) if width > 1 else start)
        for one, start in zip(protocol.candidates, range(0, table.shape[1], width), strict=True)
    ]
    n_half = len(table) // 2
    planned = 1 / math.fsum(1 / rows for rows in protocol.rows_per_site)
    planned *= len(protocol.rows_per_site)  # harmonic mean
    scale = float(protocol.noise_scale) * math.sqrt(planned / n_half)
    numbered = ReplicableChoiceClassifier(
        columns,
        scoring=protocol.scoring,
        max_disagreement=float(protocol.max_disagreement),
        shared_seed=protocol.seed,
        noise_scale=scale,
        classes=list(range(classes.size)),
    )
    with terminal_progress("auditing", options.pairs) as advance:
        result = audit(
            numbered,
            table,
            class_numbers(classes, np.asarray(y)),
            n_pairs=options.pairs,
            max_disagreement=float(protocol.max_disagreement),
            confidence=options.confidence,
            question="halves",
            copies="allow",  # equal predictions are no copies of rows
            audit_seed=options.audit_seed,
            n_jobs=options.jobs,
            checkpoint=options.checkpoint,
            advance=advance,
        )
    note = (
        f"halves of {n_half:,} rows were audited with the noise that they need for the planned "
        f"disagreement, {scale:.3g}; the protocol's is {protocol.noise_scale}, for "
        f"{', '.join(f'{rows:,}' for rows in sorted(set(protocol.rows_per_site)))} rows per site"
    )
    return replace(result, notes=(*result.notes, note))


def _refuse_training(options: argparse.Namespace) -> None:
    """Refuse options of fits, which a choice does not make."""
    named = ("algorithm", *PROMISE, "seed", "cluster", "question", "mode", "intercept", "shuffle")
    if idle := given(options, *named, "allow_copies", "allow_unknown"):
        raise ReplearnError(
            f"an audit of a choice asks candidates on halves of the rows, got {idle[0]}, which is "
            "for fits. Leave it out."
        )
