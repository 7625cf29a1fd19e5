"""``replearn sums``: what a site sends to a coalition instead of its rows."""

import argparse
from pathlib import Path

from replearn.cli.files import check_target, terminal_progress, writing
from replearn.cli.options import Parser, add_common, positive
from replearn.cli.outcome import Outcome
from replearn.cli.text import aligned
from replearn.errors import ReplearnError

HELP = "write the exact sums of this site's rows, for a coalition to combine"

EPILOG = """\
examples:
  replearn sums site_a.parquet --protocol study.json --out a.sums.json --site "Site A"
  replearn sums site_a.parquet --protocol study.json --after round1.json --out a2.sums.json

The file holds the hash of the protocol, the round, counts and whole numbers; no row. It is not
private: sums of few rows, or of two versions of a table, can tell what is in single rows. See
docs/sums.md for what protects them.

exit codes: 0 done; 2 bad usage or bad input

JSON keys: sha256 (of the sums), out, protocol, round, rounds, site, rows, labels (rows of each),
  columns (rows with an unknown value, by column), warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("data DATA", "rows of this site")
    add_common(parser, "--protocol", "--lock", "--target")
    parser.add("--out FILE", "where to write the sums", required=True)
    parser.add("--site NAME", "name of the site; default none is written")
    parser.add("--round K", "round of the coalition (default 1)", type=positive)
    parser.add("--after FILE", "what `replearn combine` wrote after the last round")
    add_common(parser, "--features")
    parser.add(
        "--few-rows",
        "allow fewer than 100 rows, whose sums may tell what is in single ones",
        action="store_true",
    )
    parser.add(
        "--assume-shuffled",
        "Algorithm 1: take the rows in the order of the file, which must be random",
        action="store_true",
    )
    add_common(parser, "--allow-unknown")


def run(options: argparse.Namespace) -> Outcome:
    """Add up the rows of the file."""
    from replearn.coalitions.engines import site_sums
    from replearn.coalitions.rounds import CoalitionRound
    from replearn.coalitions.site_sums import n_rounds as rounds_of
    from replearn.study.protocol import Protocol

    check_target(options.out)
    protocol = Protocol.load(options.protocol, options.lock)
    if options.assume_shuffled and protocol.design is not None:
        raise ReplearnError(
            "--assume-shuffled is for Algorithm 1; a logistic study adds up its rows in any order. "
            "Leave it out."
        )
    n_rounds = rounds_of(protocol)
    after = None if options.after is None else CoalitionRound.load(options.after, protocol)
    expected = 1 if after is None else after.round + 1
    if options.round not in (None, expected):
        remedy = f"Pass --after, the file of round {options.round - 1}"
        raise ReplearnError(
            f"--round must be {expected} here, got {options.round}. "
            f"{remedy if options.round > 1 else 'Leave --after out in the first round'}."
        )
    with terminal_progress(f"reading {Path(options.data).name}") as watch:
        found = site_sums(
            protocol,
            options.data,
            options.target,
            after=after,
            site=options.site,
            few_rows=options.few_rows,
            allow_unknown=options.allow_unknown,
            assume_shuffled=options.assume_shuffled,
            n_features=options.features,
            watch=watch,
        )
    with writing(options.out):
        found.save(options.out)
    columns = () if protocol.encoding is None else protocol.encoding.columns
    unknown = {c.name: n for c, n in zip(columns, found.unknown, strict=True) if n}
    counts = [int(count) for count in found.sums.class_weights]
    labels = dict(zip(map(str, sorted(protocol.classes)), counts, strict=True))
    data = {
        "sha256": found.fingerprint,
        "out": options.out,
        "protocol": found.protocol,
        "round": found.round,
        "rounds": n_rounds,
        "site": found.site,
        "rows": found.n_rows,
        "labels": labels,
        "columns": unknown,
    }
    lines = [
        ("sums", f"round {found.round} of {n_rounds}, of {found.n_rows:,} rows"),
        ("labels", ", ".join(f"{label}: {n:,}" for label, n in labels.items())),
        ("sha256", found.fingerprint),
        ("written to", str(options.out)),
    ]
    if unknown:
        lines.insert(2, ("unknown", ", ".join(f"{name}: {n:,}" for name, n in unknown.items())))
    return Outcome(aligned(lines), data)
