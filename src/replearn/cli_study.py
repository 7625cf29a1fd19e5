"""Commands of a study: ``replearn audit``, ``table``, and ``compare --commit`` and ``--reveal``."""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replearn import cli
from replearn.errors import ReplearnError

if TYPE_CHECKING:
    from replearn.findings import AuditResult

UNDECIDED = 3  # neither shown nor refuted: a pipeline must not take it for a pass
_EXIT = {"within": cli.DONE, "exceeds": cli.DIFFERENT, "undecided": UNDECIDED}


def add_commands(commands: Any) -> None:
    """Add the commands of this module to the parser."""
    _add_audit(commands)
    _add_table(commands)


def command_line(options: argparse.Namespace) -> str:
    """The command as it was typed."""
    return shlex.join(["replearn", *options.command_line])


# --- audit ------------------------------------------------------------------------------------


def _audit(options: argparse.Namespace) -> cli.Outcome:
    from dataclasses import replace

    for path in (options.report, options.checkpoint):
        cli._check_target(path)
    if options.report is not None:
        from replearn.report import require_report_packages

        require_report_packages()
    result = replace(_run(options), command=command_line(options))
    text = str(result)
    if options.report is not None:
        from replearn.report import audit_report, write_report

        with cli._writing(options.report):
            write_report(audit_report(result), options.report)
        text += f"\n  report        {options.report}"
    text = "\n".join(cli._printable(line) for line in text.splitlines())
    return cli.Outcome(text, result.data() | {"report": options.report}, _EXIT[result.verdict])


def _run(options: argparse.Namespace) -> "AuditResult":
    from replearn.audit import audit
    from replearn.progress import no_progress, on_terminal, progress

    X, y, _ = cli._training_rows(options)
    estimator = cli._estimator(options)
    if options.protocol is not None:
        from replearn.protocol import Protocol

        protocol = Protocol.load(options.protocol, options.lock)
        protocol.check(X, y)
        if protocol.encoding is not None:  # once, instead of in every fit
            X = protocol.encoding.transform(X)
            estimator.set_params(encoding=None)
    estimator.set_params(verbose=0, n_jobs=1)

    def run(advance: Any) -> "AuditResult":
        return audit(
            estimator,
            X,
            y,
            n_pairs=options.pairs,
            max_disagreement=estimator.max_disagreement,
            confidence=options.confidence,
            question=options.question,
            copies="allow" if options.allow_copies else "refuse",
            audit_seed=options.audit_seed,
            n_jobs=options.jobs,
            checkpoint=options.checkpoint,
            advance=advance,
        )

    if not on_terminal():
        return run(no_progress)
    total = options.pairs * (2 if options.question == "both" else 1)
    with progress("auditing", total) as advance:
        return run(advance)


def _add_audit(commands: Any) -> None:
    parser = cli._command(
        commands,
        _audit,
        "measure how often two labs would get exactly the same model",
        """\
examples:
  replearn audit site_a.csv --target label --margin .2 --pairs 60 --report audit.html
  replearn audit site_a.csv --target label --protocol study.json --checkpoint audit.json

The file's rows are cut into disjoint samples, each pair of samples is fitted under one seed, and
the pairs with different models are counted. Two questions are answered apart: small parts
(independent pairs, each of n/(2*pairs) rows) and the two halves under many fresh seeds (full size,
one split). The verdict is that of the halves, if they were asked for.

59 clean pairs show a disagreement of at most 5 %, and 29 one of at most 10 %, at 95 % confidence.

exit codes: 0 within --max-disagreement; 1 the disagreement exceeds it; 3 undecided

JSON keys: verdict, verdict_in_words, disagreement, interval, max_disagreement, confidence,
  clean_pairs_needed, method, compared, seed_parameter, published_seed, test_rows,
  questions (question, rows_per_sample, fresh_seeds, published_seed, pointwise_agreement, churn,
  churn_when_different, test_error, angle_degrees, coefficient_distance,
  estimated_disagreement, codes), notes, command, score_name, report, warnings""",
    )
    parser.add_argument("data", metavar="DATA", help="rows of this lab, with labels")
    parser.add_argument(
        "--target", metavar="COLUMN", help="label column; for .npz an array (default y)"
    )
    parser.add_argument("--protocol", metavar="FILE", help="the study's protocol")
    cli._add_lock(parser)
    cli._add_promise(parser)
    parser.add_argument("--seed", help="published seed (default 0)")
    parser.add_argument(
        "--pairs", type=cli._positive, default=60, metavar="N", help="pairs of fits (default 60)"
    )
    parser.add_argument(
        "--question",
        choices=("both", "parts", "halves"),
        default="both",
        help="small independent parts, full-size halves, or both (default)",
    )
    parser.add_argument("--confidence", type=_share, default=0.95, metavar="X", help="default 0.95")
    parser.add_argument("--report", metavar="FILE", help="write a report for people, as HTML")
    parser.add_argument(
        "--checkpoint", metavar="FILE", help="keep the pairs done, and go on from there"
    )
    parser.add_argument(
        "--allow-copies", action="store_true", help="different subjects may have equal rows"
    )
    parser.add_argument(
        "--audit-seed", default="0", help="decides the split and the fresh seeds (default 0)"
    )
    parser.add_argument(
        "--no-shuffle",
        dest="shuffle",
        action="store_false",
        help="fits take their rows in the order of the split",
    )
    parser.add_argument(
        "--jobs", type=cli._positive, default=-1, metavar="N", help="threads (default: all cores)"
    )


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be a number in (0, 1), got {text!r}")
    return value


# --- table ------------------------------------------------------------------------------------


def _table(options: argparse.Namespace) -> cli.Outcome:
    from replearn.planning import table1

    table = table1(
        margin=options.margin,
        max_error=options.max_error,
        max_disagreement=options.max_disagreement,
        failure_prob=options.failure_prob,
        n_features=options.features,
        fit_intercept=options.intercept,
    )
    return cli.Outcome(str(table), table.data())


def _add_table(commands: Any) -> None:
    parser = cli._command(
        commands,
        _table,
        "Table 1 of the paper with numbers: rows per lab of six algorithms in three modes",
        """\
example:
  replearn table --margin .5 --max-error .1 --max-disagreement .1 --features 50

JSON keys: margin, max_error, max_disagreement, failure_prob, n_features, rows (algorithm, title,
  rate, n_samples by mode (null: cannot be run), reasons by mode), warnings""",
    )
    for name, default in (
        ("margin", 0.5),
        ("max_error", 0.1),
        ("max_disagreement", 0.1),
        ("failure_prob", 0.05),
    ):
        option, text = "--" + name.replace("_", "-"), cli._PROMISE[name][1]
        parser.add_argument(
            option, type=float, default=default, metavar="X", help=f"{text} (default {default:g})"
        )
    parser.add_argument(
        "--features", type=cli._positive, default=50, metavar="N", help="columns (default 50)"
    )
    parser.add_argument(
        "--no-intercept",
        dest="intercept",
        action="store_false",
        help="boundaries through the origin",
    )


# --- commit and reveal --------------------------------------------------------------------------


def commit_model(options: argparse.Namespace) -> cli.Outcome:
    """``replearn compare --commit MODEL --site NAME --out STEM``."""
    from replearn.commitments import commit, save_commitment
    from replearn.modelfile import load

    if len(options.files) != 1 or not options.site or options.out is None:
        raise ReplearnError(
            "compare --commit needs one model file, --site NAME and --out STEM, for example: "
            "replearn compare --commit a.model.json --site oslo --out oslo"
        )
    places = [f"{options.out}.commitment.json", f"{options.out}.opening.json"]
    for place in places:
        cli._check_target(place)
        if Path(place).exists():
            raise ReplearnError(
                f"{place} exists already, and a commitment must not change. Name another --out."
            )
    commitment, opening = commit(load(options.files[0]).fingerprint, options.site)
    with cli._writing(options.out):
        save_commitment(opening, places[1])  # first: a commitment without it is worthless
        save_commitment(commitment, places[0])
    text = cli._aligned(
        [
            ("publish now", places[0]),
            ("keep secret", f"{places[1]}, until every site has published its commitment"),
            ("digest", commitment.digest),
        ]
    )
    data = {"commitment": places[0], "opening": places[1], "digest": commitment.digest}
    return cli.Outcome(text, data)


def reveal_models(options: argparse.Namespace) -> cli.Outcome:
    """``replearn compare --reveal FILES``."""
    from replearn.commitments import Commitment, Opening, load_commitment, reveal

    items: list[Commitment | Opening] = [load_commitment(path) for path in options.files]
    result = reveal(
        [item for item in items if isinstance(item, Commitment)],
        [item for item in items if isinstance(item, Opening)],
    )
    text = "\n".join(cli._printable(line) for line in str(result).splitlines())
    data = {"same": result.same, "fingerprints": result.fingerprints}
    return cli.Outcome(text, data, cli.DONE if result.same else cli.DIFFERENT)
