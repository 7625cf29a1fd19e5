"""The command line: ``replearn demo``, ``fit``, ``predict``, ``compare``, ``show``, ``plan``.

Exit codes: 0 done, or the same model; 1 the models differ; 2 bad usage or bad input, with one
line on standard error; 130 interrupted; 70 a bug of replearn. With ``--json`` a command prints
one JSON object, whose keys its ``--help`` lists, and nothing else on standard output.

Nothing heavy is imported before the arguments are parsed.
"""

import argparse
import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from replearn import __version__
from replearn.errors import ReplearnError, ReplicabilityWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replearn.certificate import Certificate
    from replearn.estimators import ReplicableSVMClassifier
    from replearn.model import Model
    from replearn.plan import Plan
    from replearn.sources import Table

DONE, DIFFERENT, BAD_INPUT, BUG, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 70, 130, 141


@dataclass(frozen=True)
class Outcome:
    """What a command has to say.

    Attributes
    ----------
    text : str
        For people.
    data : dict
        The same for programs: JSON types.
    code : int
        Exit code.
    """

    text: str
    data: dict[str, Any]
    code: int = DONE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.
    """
    options = _parser().parse_args(arguments)
    options.command_line = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _warnings_in_one_line() as warned:
            outcome: Outcome = options.run(options)
        if options.json:
            print(json.dumps(outcome.data | {"warnings": warned}, allow_nan=False))
        elif outcome.text:
            print(outcome.text)
        sys.stdout.flush()
        return outcome.code
    except ReplearnError as problem:
        _complain("error", problem)
        return BAD_INPUT
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        _complain("error", f"{where}{problem.strerror or problem}. Check the path and its rights.")
        return BAD_INPUT
    except KeyboardInterrupt:
        print("replearn: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        _complain("internal error", "this is a bug of replearn; please report the lines above")
        return BUG  # not 1, which would say that two models differ


# --- commands ---------------------------------------------------------------------------------


def _demo(options: argparse.Namespace) -> Outcome:
    from replearn import demo
    from replearn.progress import no_progress, on_terminal, progress

    setting = demo.Setting(n_studies=options.repetitions)
    if on_terminal():
        with progress("two labs, again and again", setting.n_studies) as advance:
            result = demo.run(setting, advance)
    else:
        result = demo.run(setting, no_progress)
    return Outcome(demo.text(result), result.data())


def _fit(options: argparse.Namespace) -> Outcome:
    _check_target(options.out)
    X, y, names = _training_rows(options)
    estimator = _estimator(options)
    try:
        estimator.fit(X, y)
    except ReplearnError:
        raise
    except ValueError as problem:  # scikit-learn's, about the data
        raise ReplearnError(f"{options.data}: {problem}") from None
    model = estimator.model_
    if names is not None:
        model = replace(model, feature_names=names)
    if options.out is not None:
        from replearn.modelfile import save

        with _writing(options.out):
            save(model, options.out, _provenance(estimator))
    return _fit_outcome(model, estimator, options)


def _training_rows(options: argparse.Namespace) -> tuple[Any, Any, tuple[str, ...] | None]:
    """Numbers and labels; with a protocol, raw columns for it to encode."""
    if options.protocol is None:
        table = _read_training(options.data, options.target)
        return table.X, table.y, table.names
    columns, y = _read_raw(options.data, options.target)
    return columns, y, None


def _read_raw(path: str, target: str | None) -> tuple[dict[str, Any], Any]:
    from replearn.sources import read_columns

    if target is None and not path.lower().endswith(".npz"):
        raise ReplearnError(f"{path}: labels are needed. Name the label column with --target.")
    return read_columns(path, target)


def _read_training(path: str, target: str | None) -> "Table":
    needed = f"{path}: fit needs labels, got none. Name the label column with --target."
    if target is None and not path.lower().endswith(".npz"):  # whose labels are its array y
        raise ReplearnError(needed)
    table = _read(path, target)
    if table.y is None:
        raise ReplearnError(needed)
    return table


def _estimator(options: argparse.Namespace) -> "ReplicableSVMClassifier":
    from replearn.estimators import ReplicableSVMClassifier
    from replearn.progress import on_terminal

    given = {
        name: getattr(options, name) for name in _PROMISE if getattr(options, name) is not None
    }
    if options.protocol is not None:
        from replearn.protocol import Protocol

        fixed = [*given, *([] if options.seed is None else ["seed"])]
        if fixed or options.mode != "practical" or not options.intercept:
            raise ReplearnError(
                "--protocol fixes the promise, the mode, the intercept and the seed, got another "
                "option for them too. Leave those options out."
            )
        protocol = Protocol.load(options.protocol, options.lock)
        return protocol.estimator(
            shuffle=options.shuffle, n_jobs=options.jobs, verbose=int(on_terminal())
        )
    return ReplicableSVMClassifier(
        **given,
        shared_seed="0" if options.seed is None else options.seed,
        mode=options.mode,
        fit_intercept=options.intercept,
        shuffle=options.shuffle,
        n_jobs=options.jobs,
        verbose=int(on_terminal()),
    )


def _provenance(estimator: "ReplicableSVMClassifier") -> dict[str, Any]:
    """Facts about the run; reals as decimal strings, as everywhere in the file."""
    spent, estimate = estimator.plan_.spent, estimator.certificate_.estimated_disagreement
    assert spent is not None
    return {
        "batches": spent.n_batches,
        "estimated_disagreement": None if estimate is None else f"{estimate:.4g}",
        "mode": estimator.plan_.mode,
        "replearn": __version__,
        "rows": spent.n_rows,
    }


def _fit_outcome(
    model: "Model", estimator: "ReplicableSVMClassifier", options: argparse.Namespace
) -> Outcome:
    plan, certificate = estimator.plan_, estimator.certificate_
    spent = plan.spent
    assert spent is not None
    met = None if options.expect is None else options.expect == model.fingerprint
    lines = [
        ("model", _describe(model)),
        (
            "rows",
            f"{spent.n_rows:,}, in {spent.n_batches:,} batches of {plan.batch_size:,} "
            f"({spent.n_dropped:,} left over)",
        ),
        *_chances(certificate),
        ("fingerprint", model.fingerprint),
    ]
    if options.out is not None:
        lines.append(("written to", str(options.out)))
    if met is not None:
        lines.append(("expected", "yes, the same model" if met else f"NO: {options.expect}"))
    data = {
        "fingerprint": model.fingerprint,
        "out": options.out,
        "rows": spent.n_rows,
        "batches": spent.n_batches,
        "batch_size": plan.batch_size,
        "rows_left_over": spent.n_dropped,
        "mode": plan.mode,
        "rows_needed": plan.n_samples,
        "estimated_disagreement": certificate.estimated_disagreement,
        "disagreement_bound": certificate.disagreement_bound,
        "bound_confidence": certificate.confidence,
        "bound_assumes": certificate.assumes,
        "as_expected": met,
    }
    return Outcome(_aligned(lines), data, DIFFERENT if met is False else DONE)


def _chances(certificate: "Certificate") -> list[tuple[str, str]]:
    """Chance of another model at another lab: the estimate, and what is proved."""
    estimate, bound = certificate.estimated_disagreement, certificate.disagreement_bound
    return [
        (
            "estimated",
            f"cannot be said from {certificate.n_batches} batches"
            if estimate is None
            else f"another lab gets a different model with probability {estimate:.3f} at this seed",
        ),
        (
            "certified",
            "nothing is proved for so few rows"
            if bound >= 1
            else f"that probability is at most {bound:.3f} on average over seeds, at confidence "
            f"{certificate.confidence:g}; assumes {certificate.assumes}",
        ),
    ]


def _predict(options: argparse.Namespace) -> Outcome:
    from replearn.jsonfile import write_atomically
    from replearn.modelfile import load

    _check_target(options.out)
    model = load(options.model)
    if model.encoding is None:
        X = _read(options.data, columns=model.feature_names).X
    else:
        from replearn.sources import read_columns

        X = read_columns(options.data)[0]
    try:
        scores = model.decision_function(X)
    except ReplearnError as problem:
        raise ReplearnError(f"{options.data} does not fit {options.model}: {problem}") from None
    labels = [model.classes[int(score > 0)] for score in scores]
    counts = {str(label): labels.count(label) for label in model.classes}
    data = {"fingerprint": model.fingerprint, "rows": len(labels), "counts": counts}
    if options.out is None:
        return Outcome(_csv_text(labels, scores).rstrip("\n"), data | {"predictions": labels})
    with _writing(options.out):
        write_atomically(options.out, _csv_text(labels, scores).encode())
    shares = ", ".join(f"{count:,} {label}" for label, count in counts.items())
    text = f"{len(labels):,} rows: {shares}; written to {options.out}"
    return Outcome(_printable(text), data)


def _csv_text(labels: Sequence[Any], scores: Any) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["prediction", "score"])
    writer.writerows((label, f"{score:.9g}") for label, score in zip(labels, scores, strict=True))
    return text.getvalue()


def _compare(options: argparse.Namespace) -> Outcome:
    from replearn import cli_study
    from replearn.model import compare
    from replearn.modelfile import load

    if options.commit:
        return cli_study.commit_model(options)
    if options.reveal:
        return cli_study.reveal_models(options)
    if len(options.files) != 2:
        raise ReplearnError(f"compare needs two model files, got {len(options.files)}.")
    options.first, options.second = options.files
    first, second = load(options.first), load(options.second)
    result = compare(first, second)
    lines = [
        str(result),
        f"  {first.fingerprint}  {options.first}",
        f"  {second.fingerprint}  {options.second}",
    ]
    if not result.same and result.angle_degrees is not None:
        lines.append(f"  angle between the two normals: {result.angle_degrees:.3g} degrees")
    data = asdict(result) | {"fingerprints": [first.fingerprint, second.fingerprint]}
    text = "\n".join(map(_printable, lines))
    return Outcome(text, data, DONE if result.same else DIFFERENT)


def _show(options: argparse.Namespace) -> Outcome:
    from replearn.jsonfile import read_json
    from replearn.modelfile import load

    model = load(options.model)
    provenance = read_json(options.model)["provenance"]
    lines = [
        ("model", _describe(model)),
        ("labels", f"{model.classes[0]!r} and {model.classes[1]!r} (positive score)"),
        ("seed", model.seed),
        ("code space", _space_words(model)),
        ("largest weights", _largest_weights(model)),
        ("provenance", json.dumps(provenance)),
        ("fingerprint", model.fingerprint),
    ]
    names = None if model.feature_names is None else list(model.feature_names)
    data = {
        "fingerprint": model.fingerprint,
        "model": model.content(),
        "feature_names": names,
        "coef": model.coef.tolist() if model.is_halfspace else None,
        "intercept": model.intercept if model.is_halfspace else None,
        "provenance": provenance,
    }
    if options.report is not None:
        from replearn.cli_study import command_line
        from replearn.report import model_report, write_report

        _check_target(options.report)
        with _writing(options.report):
            write_report(model_report(model, provenance, command_line(options)), options.report)
        lines.append(("report", options.report))
    return Outcome(_aligned(lines), data | {"report": options.report})


def _plan(options: argparse.Namespace) -> Outcome:
    if options.pilot is not None:
        return _plan_from_pilot(options)
    if options.features is None:
        raise ReplearnError("plan needs --features N, or --pilot FILE with --samples-per-site N.")
    from replearn.planning import plan as make_plan

    promise: dict[str, Any] = {
        name: default if getattr(options, name) is None else getattr(options, name)
        for name, (default, _) in _PROMISE.items()
    }
    if options.solve is not None:
        promise[options.solve.replace("-", "_")] = None
    plan = make_plan(
        options.algorithm,
        n_features=options.features,
        n_samples=options.samples,
        mode=options.mode,
        n_sites=options.sites,
        fit_intercept=options.intercept,
        **promise,
    )
    return Outcome(str(plan), _plan_data(plan) | {"n_sites": options.sites})


def _plan_from_pilot(options: argparse.Namespace) -> Outcome:
    from replearn.pilot import plan_from_pilot

    if options.samples_per_site is None:
        raise ReplearnError(
            "--pilot needs --samples-per-site N, the rows that each site will have."
        )
    _check_target(options.out)
    columns, y = _read_raw(options.pilot, options.target)
    given = {
        name: getattr(options, name) for name in _PROMISE if getattr(options, name) is not None
    }
    plan = plan_from_pilot(
        columns,
        y,
        samples_per_site=options.samples_per_site,
        shared_seed="0" if options.seed is None else options.seed,
        fit_intercept=options.intercept,
        **given,
    )
    if options.public_value is not None:
        if options.seed is not None:
            raise ReplearnError("--public-value derives the seed, got --seed, too. Leave one out.")
        plan = replace(plan, protocol=plan.protocol.with_public_value(options.public_value))
    text = f"{plan}\n  seed: {plan.protocol.seed_policy}"
    if options.out is not None:
        with _writing(options.out):
            plan.protocol.save(options.out)
        text += f"\n  protocol {plan.protocol.fingerprint[:16]}..., written to {options.out}"
    data = {
        "protocol": plan.protocol.fingerprint,
        "out": options.out,
        "pilot_accuracy": plan.pilot_accuracy,
        "chosen": asdict(plan.chosen),
        "frontier": [asdict(point) for point in plan.frontier],
        "samples": [asdict(point) for point in plan.samples],
    }
    return Outcome(text, data)


def _plan_data(plan: "Plan") -> dict[str, Any]:
    from math import isfinite

    return {
        "algorithm": plan.algorithm,
        "mode": plan.mode,
        "basis": plan.basis,
        **asdict(plan.guarantee),
        "n_samples": plan.n_samples,
        "n_batches": plan.n_batches,
        "batch_size": plan.batch_size,
        "n_inputs": plan.n_inputs,
        "projection": plan.projection,
        "n_components": plan.n_components,
        "rounding": plan.rounding,
        "grid_width": plan.grid_width,
        "regularization": plan.regularization,
        "unit_vectors": plan.unit_vectors,
        "length_cap": plan.length_cap if isfinite(plan.length_cap) else None,
    }


# --- files ------------------------------------------------------------------------------------


def _read(path: str, target: str | None = None, columns: Sequence[str] | None = None) -> "Table":
    from replearn.progress import on_terminal, progress
    from replearn.sources import read_table

    if not on_terminal():
        return read_table(path, target, columns)
    with progress(f"reading {Path(path).name}", 1.0) as advance:
        return read_table(path, target, columns, advance)


def _check_target(path: str | None) -> None:
    """Refuse before the work what could not be written after it."""
    if path is None:
        return
    target = Path(path)
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise ReplearnError(
            f"{path} must be a regular file or not exist yet, since it is replaced as a whole. "
            "Name another file."
        )
    if not target.parent.is_dir():
        raise ReplearnError(
            f"{path} cannot be written: {target.parent} is no folder. Make it first."
        )
    if not os.access(target.parent, os.W_OK):
        raise ReplearnError(f"{path} cannot be written: no right to write to {target.parent}.")


@contextmanager
def _writing(path: str) -> "Iterator[None]":
    try:
        yield
    except OSError as problem:
        raise ReplearnError(
            f"{path} cannot be written: {problem.strerror or problem}. Name another file."
        ) from None


# --- text -------------------------------------------------------------------------------------


def _describe(model: "Model") -> str:
    inputs = f"{model.n_features:,} features" + (" and an intercept" if model.fit_intercept else "")
    return f"{model.recipe}, {inputs}, {model.codes.size:,} codes"


def _space_words(model: "Model") -> str:
    """What the codes of a model are, whatever its algorithm."""
    content = model.space.content()
    words = [f"{name} {value}" for name, value in content.items() if isinstance(value, int | str)]
    return f"{model.space.n_inputs:,} inputs, " + ", ".join(words)


def _largest_weights(model: "Model", n_shown: int = 5) -> str:
    if not model.is_halfspace:
        return "none: a majority of halfspaces"
    names = model.feature_names or [f"x{i}" for i in range(model.n_features)]
    places = sorted(range(model.n_features), key=lambda i: -abs(model.coef[i]))[:n_shown]
    return ", ".join(f"{names[i]} {model.coef[i]:+.3f}" for i in places)


def _aligned(lines: Sequence[tuple[str, ...]]) -> str:
    width = max(len(line[0]) for line in lines) + 2
    return "\n".join(f"{name:<{width}}{_printable(value)}" for name, value in lines)


def _printable(text: str) -> str:
    """One line that cannot steer the terminal: names and labels in a file are not ours."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", "?", text)


def _complain(kind: str, message: object) -> None:
    line = " ".join(str(message).split())
    print(_printable(f"replearn: {kind}: {line}"), file=sys.stderr)


@contextmanager
def _warnings_in_one_line() -> "Iterator[list[str]]":
    """Show warnings without file names and source lines; collect them for ``--json``."""
    collected: list[str] = []

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        collected.append(" ".join(str(message).split()))
        _complain("warning", message)

    with warnings.catch_warnings():
        warnings.simplefilter("always", ReplicabilityWarning)
        warnings.showwarning = show
        yield collected


# --- arguments --------------------------------------------------------------------------------

#: What is promised: default (that of the estimators) and help of each number.
_PROMISE = {
    "margin": (0.1, "margin of the population, rows scaled to length 1; fit: also auto"),
    "max_error": (0.05, "share of new points that may be misclassified"),
    "max_disagreement": (0.1, "probability that two labs may get different models"),
    "failure_prob": (0.05, "probability that the error may exceed --max-error"),
}

_EPILOG = """\
examples:
  replearn demo
  replearn plan --margin .2 --max-error .05 --max-disagreement .1 --features 50
  replearn fit site_a.csv --target label --margin .2 --seed 2024 --out a.model.json
  replearn compare a.model.json b.model.json
  replearn predict a.model.json new.csv --out pred.csv

exit codes: 0 done, or the same model; 1 the models differ; 2 bad usage or bad input
"""


class _Parser(argparse.ArgumentParser):
    """Complains in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="replearn",
        description="Two labs, two samples, one seed: exactly the same classifier.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"replearn {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (_add_demo, _add_plan, _add_fit, _add_compare, _add_predict, _add_show):
        add(commands)
    from replearn import cli_study  # it needs what is defined here

    cli_study.add_commands(commands)
    return parser


def _command(
    commands: Any, run: Callable[[argparse.Namespace], Outcome], help_text: str, epilog: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        run.__name__.lstrip("_"),
        help=help_text,
        description=help_text[0].upper() + help_text[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.set_defaults(run=run)
    return parser


def _add_demo(commands: Any) -> None:
    parser = _command(
        commands,
        _demo,
        "two simulated labs, end to end, beside scikit-learn's LinearSVC",
        """\
Two labs draw different samples of one population and fit with the same settings and seed.
The same is done for more populations, samples and seeds, and the pairs with exactly the
same model are counted, for replearn and for LinearSVC on the same rows. Takes half a minute.

JSON keys: setting, labs (rows, accuracy, fingerprint, estimated_disagreement,
  disagreement_bound, bound_confidence), same, codes, methods (name, same, studies,
  rate, interval, accuracy), mean_estimated_disagreement, largest_disagreement_bound,
  seconds, warnings""",
    )
    parser.add_argument(
        "--repetitions",
        type=_positive,
        default=20,
        metavar="N",
        help="pairs of labs, each with its own population and seed (default 20)",
    )


def _add_fit(commands: Any) -> None:
    parser = _command(
        commands,
        _fit,
        "fit a model on this lab's rows",
        """\
example:
  replearn fit site_a.csv --target label --margin .2 --seed 2024 --out a.model.json
  replearn fit site_a.csv --target label --protocol study.json --out a.model.json

DATA is .csv or .csv.gz with a header row (numbers, and one label column with two values), or
.npz with the arrays X and y (or data, indices, indptr, shape of a CSR matrix, and y). All
labs must use the same options and the same columns in the same order.

exit code 1: --expect was given and the fingerprint is another one (--out is written anyway)

JSON keys: fingerprint, out, rows, batches, batch_size, rows_left_over, mode, rows_needed,
  estimated_disagreement (null: not estimable), disagreement_bound, bound_confidence,
  bound_assumes, as_expected (null without --expect), warnings""",
    )
    parser.add_argument("data", metavar="DATA", help="training rows of this lab")
    parser.add_argument(
        "--target", metavar="COLUMN", help="label column; for .npz an array (default y)"
    )
    parser.add_argument("--out", metavar="FILE", help="where to write the model")
    _add_promise(parser)
    parser.add_argument(
        "--seed", help="published seed, the same at every lab: any text (default 0)"
    )
    parser.add_argument(
        "--protocol", metavar="FILE", help="protocol of the study, made by `replearn plan --pilot`"
    )
    _add_lock(parser)
    parser.add_argument(
        "--no-shuffle",
        dest="shuffle",
        action="store_false",
        help="take the rows in the order of the file, which must be random",
    )
    parser.add_argument(
        "--jobs",
        type=_positive,
        default=-1,
        metavar="N",
        help="threads (default: all cores); the model does not depend on it",
    )
    parser.add_argument(
        "--expect",
        type=_fingerprint,
        metavar="FINGERPRINT",
        help="exit with 1 unless the model has this fingerprint",
    )


def _add_predict(commands: Any) -> None:
    parser = _command(
        commands,
        _predict,
        "label new rows with a model",
        """\
example:
  replearn predict a.model.json new.csv --out pred.csv

Columns are found by name if the model has names; others, such as labels, are ignored. The
result has the columns prediction and score, one row for each row of DATA.

JSON keys: fingerprint, rows, counts (by label), predictions (without --out), warnings""",
    )
    parser.add_argument("model", metavar="MODEL", help="model file")
    parser.add_argument("data", metavar="DATA", help="new rows (.csv, .csv.gz, .npz)")
    parser.add_argument("--out", metavar="FILE", help="where to write them (default: print)")


def _add_compare(commands: Any) -> None:
    parser = _command(
        commands,
        _compare,
        "say whether two model files hold the same classifier",
        """\
examples:
  replearn compare a.model.json b.model.json
  replearn compare --commit a.model.json --site oslo --out oslo
  replearn compare --reveal oslo.commitment.json oslo.opening.json rome.commitment.json ...

A bare fingerprint can be guessed, since a model has few codes. With --commit a site publishes a
salted hash first, and the opening only when all sites have done so.

exit codes: 0 the same model; 1 different models

JSON keys: same, differences, n_codes_differing, n_codes, angle_degrees, fingerprints, warnings""",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="two model files")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--commit", action="store_true", help="commit to one model file without showing it"
    )
    ways.add_argument(
        "--reveal",
        action="store_true",
        help="compare openings, checked against the commitments; FILEs are both, of all sites",
    )
    parser.add_argument("--site", metavar="NAME", help="with --commit: name of this site")
    parser.add_argument(
        "--out", metavar="STEM", help="with --commit: STEM.commitment.json, STEM.opening.json"
    )


def _add_show(commands: Any) -> None:
    parser = _command(
        commands,
        _show,
        "print what is in a model file",
        """\
JSON keys: fingerprint, model, feature_names, coef, intercept, provenance, report, warnings""",
    )
    parser.add_argument("model", metavar="MODEL", help="model file")
    parser.add_argument("--report", metavar="FILE", help="write a report for people, as HTML")


def _add_plan(commands: Any) -> None:
    parser = _command(
        commands,
        _plan,
        "how many rows a lab needs, before any data is spent",
        """\
example:
  replearn plan --margin .2 --max-error .05 --max-disagreement .1 --features 50
  replearn plan --pilot pilot.csv --target label --samples-per-site 100000 --out study.json

With --pilot, JSON keys: protocol (its hash), out, pilot_accuracy, chosen, frontier, samples,
  warnings. Without, JSON keys: algorithm, mode, basis, margin, max_error, max_disagreement,
  failure_prob, n_samples, n_batches, batch_size, n_inputs, projection, n_components, rounding,
  grid_width, regularization, unit_vectors, length_cap (null: none), n_sites, warnings""",
    )
    _add_promise(parser)
    parser.add_argument("--features", type=_positive, metavar="N", help="number of columns")
    parser.add_argument(
        "--algorithm",
        choices=("svm", "sgd", "net", "dp", "boost-box", "boost-foam"),
        default="svm",
        help="row of Table 1 (default svm)",
    )
    parser.add_argument(
        "--samples", type=_positive, metavar="N", help="rows per site: check them, or --solve"
    )
    parser.add_argument(
        "--solve",
        choices=("margin", "max-error", "max-disagreement"),
        help="the smallest value of this that --samples allow",
    )
    parser.add_argument(
        "--sites",
        type=_positive,
        default=2,
        metavar="K",
        help="all K agree but with probability --max-disagreement (default 2)",
    )
    parser.add_argument(
        "--public-value",
        metavar="TEXT",
        help="with --pilot: derive the seed from the protocol and a value nobody could choose",
    )
    parser.add_argument("--pilot", metavar="FILE", help="plan from a pilot sample, no site's own")
    parser.add_argument("--target", metavar="COLUMN", help="label column of the pilot")
    parser.add_argument(
        "--samples-per-site", type=_positive, metavar="N", help="rows that each site will have"
    )
    parser.add_argument("--seed", help="published seed that the protocol fixes (default 0)")
    parser.add_argument("--out", metavar="FILE", help="where to write the protocol")


def _add_promise(parser: argparse.ArgumentParser) -> None:
    for name, (default, text) in _PROMISE.items():
        option = "--" + name.replace("_", "-")
        kind = _margin if name == "margin" else float
        parser.add_argument(
            option, dest=name, type=kind, metavar="X", help=f"{text} (default {default:g})"
        )
    parser.add_argument(
        "--mode",
        choices=("practical", "certified", "paper"),
        default="practical",
        help="where the sizes come from: calibrated, proved, or as printed in the paper",
    )
    parser.add_argument(
        "--no-intercept",
        dest="intercept",
        action="store_false",
        help="a boundary through the origin",
    )


def _margin(text: str) -> float | str:
    """A number, or the word that asks for a replicable choice."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"invalid float value: {text!r}; pass a number, or auto"
        ) from None


def _add_lock(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lock",
        type=_fingerprint,
        metavar="HASH",
        help="refuse any protocol but the one with this hash, which the sites agreed on",
    )


def _positive(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def _fingerprint(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", text.lower()):
        raise argparse.ArgumentTypeError(f"must be 64 hexadecimal digits, got {text[:80]!r}")
    return text.lower()
