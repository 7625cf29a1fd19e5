"""``replearn fit``: a model from this lab's rows."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replearn.cli.files import check_scratch, check_target, terminal_progress, writing
from replearn.cli.options import Parser, add_common, add_training, given, n_bytes, seconds
from replearn.cli.outcome import DIFFERENT, DONE, Outcome
from replearn.cli.provenance import column_counts, facts_of, provenance_of, signal_line
from replearn.cli.text import aligned, chance, counted, describe, missing_words
from replearn.cli.training import (
    algorithm_of,
    label_column,
    make_estimator,
    own_worth,
    read_protocol,
)
from replearn.errors import ReplearnError

if TYPE_CHECKING:
    from replearn.audits.evaluation import Evaluation
    from replearn.codes.model import Model
    from replearn.estimators.base import ReplicableClassifier
    from replearn.stages.certificate import Certificate
    from replearn.study.protocol import Protocol


HELP = "fit a model on this lab's rows"

EPILOG = """\
examples:
  replearn fit site_a.csv --target label --margin .2 --seed 2024 --out a.model.json
  replearn fit site_a.csv --target label --algorithm sgd --max-error .1 --out a.model.json
  replearn fit site_a.parquet --protocol study.json --out a.model.json
  replearn fit site_a.parquet --protocol study.json --lead --out a.model.json
  replearn fit site_b.parquet --protocol study.json --hint a.hint.json --out b.model.json
  replearn fit big.parquet --target label --checkpoint state --out a.model.json
  replearn fit shuffled.parquet --target label --assume-shuffled --cluster tcp://10.0.0.1:8786

DATA is a file, or a folder of files of one format, which are taken in the order of their names:
  .csv, .csv.gz      with a header row
  .parquet, .pq
  .svm, .svm.gz      svmlight: columns are counted from 1; all labs must give the same --features
  .npz               arrays X and y (or data, indices, indptr, shape of a CSR matrix, and y)
Columns must be numbers, unless a protocol says how to read them. All labs must use the same
options and the same columns in the same order.

Rows of more than --memory bytes are not held in memory: they are shuffled by way of a scratch
folder, and then read piece by piece. The model is the same. With --cluster the workers of a Dask
cluster read Parquet files that all of them can see; the model is the same again.

A protocol with hint bits has a first site: it fits with --lead, which writes the hint file beside
the model, and publishes that file; the others fit with --hint. If no site shall be the first, all
fit with --unsafe, exchange these files, and fit again with --hint and all of them.

exit codes: 0 done; 1 --expect was given and the fingerprint is another one (--out is written
  anyway); 2 bad usage or bad input

JSON keys: fingerprint, algorithm, out, hint, hint_file, protocol (its hash), rows, batches,
  batch_size, rows_left_over, mode, rows_needed, estimated_disagreement (null: not estimable),
  disagreement_bound, bound_confidence, bound_assumes, signal_p (null: not tested), as_expected
  (null without --expect), worth (on these rows, as `replearn evaluate` says; null with --cluster),
  columns (rows with a missing or unknown value, by column), planned (what the pilot expected),
  warnings (with --unsafe: unsafe, out, hints)"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("data DATA", "training rows of this lab")
    add_common(parser, "--target")
    parser.add(
        "--weights COLUMN",
        "column with the weights of the rows, from 0 to 16,384, in steps of 1/1024; for "
        "logistic studies",
    )
    parser.add("--out FILE", "where to write the model")
    add_training(parser)
    parser.add(
        "--lead",
        "this site is the first of a study with hint bits: choose the hint, and write it to "
        "X.hint.json beside --out X.model.json",
        action="store_true",
    )
    parser.add(
        "--hint FILE",
        "hint file of the first site; or the files that all sites wrote with --unsafe",
        nargs="+",
    )
    parser.add(
        "--unsafe FILE",
        "no site is the first: write the hints that are unsafe for this one, and no model",
    )
    parser.add_argument(
        "--assume-shuffled",
        "--no-shuffle",
        dest="shuffle",
        action="store_false",
        help="take the rows in the order of the file, which must be random",
    )
    parser.add(
        "--random-state N", "shuffle by a private key instead of the published seed", type=int
    )
    add_common(parser, "--features")
    parser.add(
        "--memory SIZE",
        "rows of more bytes are not held in memory, as 500M or 4G (default 1G)",
        type=n_bytes,
    )
    parser.add(
        "--scratch DIR", "folder for rows that do not fit in memory (default: that of the system)"
    )
    parser.add(
        "--checkpoint DIR",
        "keep the state of the fit there; the same command goes on after a crash",
    )
    parser.add("--checkpoint-every SECONDS", "time between two states (default 30)", type=seconds)
    add_common(parser, "--cluster", "--jobs", "--allow-unknown", "--expect")


def run(options: argparse.Namespace) -> Outcome:
    """Fit, and write the model."""
    check_target(options.out)
    check_scratch(options.scratch)
    if options.checkpoint_every is not None and options.checkpoint is None:
        raise ReplearnError("--checkpoint-every needs --checkpoint DIR. Add it, or leave both out.")
    protocol = read_protocol(options)
    hint = _hint(options, protocol)
    hint_file = _hint_file(options)
    with _cluster(options, protocol) as client:  # before anything that takes long to import
        estimator = make_estimator(options, protocol, **hint)
        options.target = label_column(options, protocol)
        estimator = (
            _fit_on_files(estimator, options)
            if client is None
            else _fit_on_cluster(estimator, options, client)
        )
    model = estimator.model_
    if options.unsafe is not None and protocol is not None:
        return _unsafe_hints(estimator, options, protocol)
    provenance = provenance_of(estimator, options.target, protocol)
    _save(model, options.out, provenance, protocol)
    if hint_file is not None and protocol is not None:
        from replearn.study.hints import Hint

        with writing(hint_file):
            Hint.of(model.hint, protocol).save(hint_file)
    if options.checkpoint is not None:  # the model is safe, so it has served
        from replearn.files.checkpoint import clear

        clear(options.checkpoint)
    found = None
    if options.cluster is None and not model.is_numeric:
        # the model is safe already; what its own rows say about it goes into the file as well
        found = own_worth(estimator, options, protocol)
        _save(model, options.out, provenance | facts_of(found), protocol)
    return _outcome(model, estimator, options, found, protocol, hint_file)


def _save(
    model: "Model", path: str | None, provenance: dict[str, Any], protocol: "Protocol | None"
) -> None:
    if path is not None:
        from replearn.files.modelfile import save

        content = None if protocol is None else protocol.content()
        with writing(path):
            save(model, path, provenance, content)


def _hint(options: argparse.Namespace, protocol: "Protocol | None") -> dict[str, int]:
    """The hint of the first site, for the estimator; nothing if there is none, or we are it."""
    bits = 0 if protocol is None else protocol.hint_bits
    ways = given(options, "lead", "hint", "unsafe")
    if len(ways) > 1:
        raise ReplearnError(
            "--lead makes this site the first, --hint takes what others published, --unsafe says "
            f"what this site publishes: one at a time, got {' and '.join(ways)}."
        )
    if options.unsafe is not None and options.out is not None:
        raise ReplearnError("--unsafe writes no model, got --out. Leave it out; fit again later.")
    if options.unsafe is not None and options.expect is not None:
        raise ReplearnError("--unsafe makes no model to expect, got --expect. Leave one out.")
    if ways and bits == 0:
        raise ReplearnError(
            f"{ways[0]} is for protocols with hint bits, which this one has not. Leave it out."
        )
    if bits and not ways:
        raise ReplearnError(
            f"this protocol has {bits} hint bits, so one site must be the first: is it this one? "
            "Then add --lead. Otherwise add --hint FILE, the hint file that the first site wrote."
        )
    if options.hint is None or protocol is None:
        return {}
    from replearn.study.hints import read_hints

    return {"hint": read_hints(options.hint, protocol)}


def _unsafe_hints(estimator: Any, options: argparse.Namespace, protocol: "Protocol") -> Outcome:
    """Write what this site asks the others not to take."""
    from replearn.study.hints import UnsafeHints

    sites = int(protocol.notes.get("sites", "2"))
    unsafe = estimator.unsafe_hints(sites)
    check_target(options.unsafe)
    with writing(options.unsafe):
        UnsafeHints.of(unsafe, protocol).save(options.unsafe)
    n_hints = 1 << protocol.hint_bits
    text = (
        f"{len(unsafe)} of {n_hints} hints are unsafe for these rows, written to {options.unsafe}. "
        f"Exchange the files of all {sites} sites, then fit with --hint and all of them."
    )
    return Outcome(text, {"unsafe": list(unsafe), "out": options.unsafe, "hints": n_hints})


def _hint_file(options: argparse.Namespace) -> str | None:
    """Where the hint of this site goes, if it is the first."""
    if not options.lead:
        return None
    if options.out is None:
        raise ReplearnError("--lead writes the hint beside the model: name that with --out FILE.")
    stem = Path(options.out).name.removesuffix(".json").removesuffix(".model")
    path = str(Path(options.out).with_name(f"{stem}.hint.json"))
    check_target(path)
    return path


def _fit_on_files(
    estimator: "ReplicableClassifier", options: argparse.Namespace
) -> "ReplicableClassifier":
    from replearn.fits.file_fit import MEMORY, fit_file

    _refuse_idle(estimator, options)
    return fit_file(
        estimator,
        options.data,
        options.target,
        n_features=options.features,
        memory=MEMORY if options.memory is None else options.memory,
        weights=options.weights,
        scratch=options.scratch,
        checkpoint=options.checkpoint,
        every=30.0 if options.checkpoint_every is None else options.checkpoint_every,
        allow_unknown=options.allow_unknown,
    )


def _refuse_idle(estimator: "ReplicableClassifier", options: argparse.Namespace) -> None:
    """Refuse what would do nothing: where rows are held, if nothing has to be put in order."""
    held = given(options, "memory", "scratch")
    if estimator.asks != "batches":
        why = "needs all rows in memory"
    elif not options.shuffle:
        why = "reads rows in the order of the file, which takes little memory"
    else:
        from replearn.sources import open_source

        if not held or not open_source(options.data, raw=True).in_memory_only:
            return
        why = f"holds all rows of {options.data} in memory, as its format asks for"
    if held:
        raise ReplearnError(
            f"{held[0]} is for rows that are shuffled by way of a folder, but this fit {why}. "
            "Leave it out."
        )


def _refuse_with_cluster(options: argparse.Namespace) -> None:
    """Refuse what means nothing on a cluster, whose workers read and add up."""
    names = ("weights", "checkpoint", "scratch", "memory", "features", "random_state", "jobs")
    if idle := given(options, *names):
        raise ReplearnError(
            "with --cluster the workers read Parquet files in their order and add them up, with "
            f"threads and memory of their own, got {idle[0]} too. Leave one out."
        )


@contextmanager
def _cluster(options: argparse.Namespace, protocol: "Protocol | None") -> Iterator[Any]:
    """A connection to a cluster that has workers, if one is asked for."""
    if options.cluster is None:
        yield None
        return
    if options.shuffle and (protocol is None or protocol.design is None):
        raise ReplearnError(
            "--cluster takes the rows in the order of the files, so it needs --assume-shuffled. "
            "Shuffle them once with `replearn shuffle`."
        )
    _refuse_with_cluster(options)
    from replearn.fits.connection import connect, require_workers

    with connect(options.cluster) as client:
        require_workers(client)
        yield client


def _fit_on_cluster(
    estimator: "ReplicableClassifier", options: argparse.Namespace, client: Any
) -> "ReplicableClassifier":
    from replearn.fits import clusters

    with terminal_progress(f"fitting {Path(options.data).name}") as watch:
        return clusters.fit(
            estimator,
            options.data,
            target=options.target,
            client=client,
            allow_unknown=options.allow_unknown,
            watch=watch,
        )


def _outcome(
    model: "Model",
    estimator: "ReplicableClassifier",
    options: argparse.Namespace,
    found: "Evaluation | None",
    protocol: "Protocol | None",
    hint_file: str | None,
) -> Outcome:
    from replearn.stages.planned import Planned

    plan, certificate = estimator.plan_, estimator.certificate_
    spent = plan.spent
    met = None if options.expect is None else options.expect == model.fingerprint
    lines = [
        ("model", describe(model)),
        ("rows", _rows_words(plan)),
        *chances(certificate, has_batches=hasattr(plan, "n_batches")),
        ("signal", signal_line(estimator)),
        ("fingerprint", model.fingerprint),
    ]
    if options.out is not None:
        lines.append(("written to", str(options.out)))
    if hint_file is not None:
        bits = 0 if protocol is None else protocol.hint_bits
        words = f"{model.hint}, {bits} bits about these rows; publish {hint_file}"
        lines.append(("hint", words))
    if met is not None:
        lines.append(("expected", "yes, the same model" if met else f"NO: {options.expect}"))
    planned = Planned.of(None if protocol is None else protocol.notes)
    text = aligned(lines)
    if found is not None:
        text += "\n\non its own rows, which the model has seen (new rows say more):\n"
        text += aligned(found.worth.lines(own=True))
        if beside := planned.lines(found.worth):
            text += f"\n\nbeside the plan:\n{aligned(beside)}"
    columns = column_counts(estimator)
    if columns:
        text += f"\n{missing_words(columns, spent.n_rows)}"
    data = {
        "fingerprint": model.fingerprint,
        "algorithm": algorithm_of(estimator),
        "out": options.out,
        "hint": model.hint if protocol is not None and protocol.hint_bits else None,
        "hint_file": hint_file,
        "protocol": None if protocol is None else protocol.fingerprint,
        "rows": spent.n_rows,
        "batches": getattr(spent, "n_batches", None),
        "batch_size": getattr(plan, "batch_size", None),
        "rows_left_over": getattr(spent, "n_dropped", 0),
        "mode": plan.mode,
        "rows_needed": plan.n_samples,
        "estimated_disagreement": certificate.estimated_disagreement,
        "disagreement_bound": certificate.disagreement_bound,
        "bound_confidence": certificate.confidence,
        "bound_assumes": certificate.assumes,
        "signal_p": None if estimator.signal_ is None else estimator.signal_.p_value,
        "as_expected": met,
        "worth": None if found is None else found.worth.data(),
        "columns": columns,
        "planned": planned.data(),
    }
    return Outcome(text, data, DIFFERENT if met is False else DONE)


def _rows_words(plan: Any) -> str:
    """What was done with the rows."""
    from replearn.plans.plan_rows import RowPlan
    from replearn.plans.sizes import BatchPlan, BoostPlan, NetPlan

    spent = plan.spent
    words = f"{spent.n_rows:,}"
    if isinstance(plan, RowPlan):
        words += f", in {spent.n_row_visits // max(spent.n_rows, 1):,} passes over all of them"
    if isinstance(plan, BatchPlan):
        words += f", in {counted(spent.n_batches, 'batch', 'batches')} of {plan.batch_size:,}"
    elif isinstance(plan, BoostPlan):
        words += f", in {counted(spent.n_batches, 'round', 'rounds')}"
    elif isinstance(plan, NetPlan):
        words += f", on which {counted(spent.n_tested, 'candidate was', 'candidates were')} tested"
    n_dropped = getattr(spent, "n_dropped", 0)
    return f"{words} ({n_dropped:,} left over)" if n_dropped else words


def chances(certificate: "Certificate", has_batches: bool) -> list[tuple[str, str]]:
    """Chance of another model at another lab: the estimate, and what is proved."""
    n_batches = counted(certificate.n_batches, "batch", "batches")
    source = n_batches if has_batches else "these rows"
    estimate, bound = certificate.estimated_disagreement, certificate.disagreement_bound
    return [
        (
            "estimated",
            f"cannot be said from {source}"
            if estimate is None
            else f"another lab gets a different model with probability {chance(estimate)} at this "
            "seed",
        ),
        (
            "certified",
            "no bound below 1 is proved for these rows and this plan"
            if bound >= 1
            else f"that probability is at most {bound:.3f} on average over seeds, at confidence "
            f"{certificate.confidence:g}; assumes {certificate.assumes}",
        ),
    ]
