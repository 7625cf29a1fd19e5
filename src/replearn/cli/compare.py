"""``replearn compare``: whether models are the same, also before anybody shows theirs."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from replearn.cli.files import check_target, writing
from replearn.cli.options import add_command, add_file
from replearn.cli.outcome import DIFFERENT, DONE, Outcome
from replearn.cli.text import aligned, printable, printable_lines
from replearn.errors import ReplearnError


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "compare",
        run,
        "say whether two model files hold the same classifier",
        """\
examples:
  replearn compare a.model.json b.model.json
  replearn compare --commit a.model.json --site oslo --out oslo
  replearn compare --reveal oslo.commitment.json oslo.opening.json rome.commitment.json ...

A bare fingerprint can be guessed, since a model has few codes. With --commit a site publishes a
salted hash first, and the opening only when all sites have done so.

exit codes: 0 the same model, or committed; 1 different models; 2 bad usage or bad input

JSON keys: same, parts, differences, notes, n_codes_differing, n_codes, angle_degrees, n_rows,
  n_rows_changed, fingerprints, warnings;
  with --commit: commitment, opening, digest, warnings; with --reveal: same, fingerprints (by
  site), warnings""",
    )
    add_file(parser, "files", nargs="+", metavar="FILE", help="two model files")
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
    add_file(
        parser,
        "--out",
        metavar="STEM",
        help="with --commit: STEM.commitment.json, STEM.opening.json",
    )


def run(options: argparse.Namespace) -> Outcome:
    """Compare, commit or reveal."""
    if options.commit:
        return _commit(options)
    if options.reveal:
        return _reveal(options)
    return _compare(options)


def _compare(options: argparse.Namespace) -> Outcome:
    from replearn.codes.comparison import compare
    from replearn.files.modelfile import load

    if len(options.files) != 2:
        raise ReplearnError(f"compare needs two model files, got {len(options.files)}.")
    first, second = map(load, options.files)
    result = compare(first, second)
    lines = [
        str(result),
        f"  {first.fingerprint}  {options.files[0]}",
        f"  {second.fingerprint}  {options.files[1]}",
    ]
    if not result.same and result.angle_degrees is not None:
        lines.append(f"  angle between the two normals: {result.angle_degrees:.3g} degrees")
    data = asdict(result) | {"fingerprints": [first.fingerprint, second.fingerprint]}
    text = "\n".join(map(printable, lines))
    return Outcome(text, data, DONE if result.same else DIFFERENT)


def _commit(options: argparse.Namespace) -> Outcome:
    from replearn.files.modelfile import load
    from replearn.study.commitments import commit, save_commitment

    if len(options.files) != 1 or not options.site or options.out is None:
        raise ReplearnError(
            "compare --commit needs one model file, --site NAME and --out STEM, for example: "
            "replearn compare --commit a.model.json --site oslo --out oslo"
        )
    places = [f"{options.out}.commitment.json", f"{options.out}.opening.json"]
    for place in places:
        check_target(place)
        if Path(place).exists():
            raise ReplearnError(
                f"{place} exists already, and a commitment must not change. Name another --out."
            )
    commitment, opening = commit(load(options.files[0]).fingerprint, options.site)
    with writing(options.out):
        save_commitment(opening, places[1])  # first: a commitment without it is worthless
        save_commitment(commitment, places[0])
    text = aligned(
        [
            ("publish now", places[0]),
            ("keep secret", f"{places[1]}, until every site has published its commitment"),
            ("digest", commitment.digest),
        ]
    )
    data = {"commitment": places[0], "opening": places[1], "digest": commitment.digest}
    return Outcome(text, data)


def _reveal(options: argparse.Namespace) -> Outcome:
    from replearn.study.commitments import Commitment, Opening, load_commitment, reveal

    items: list[Commitment | Opening] = [load_commitment(path) for path in options.files]
    result = reveal(
        [item for item in items if isinstance(item, Commitment)],
        [item for item in items if isinstance(item, Opening)],
    )
    data = {"same": result.same, "fingerprints": result.fingerprints}
    return Outcome(printable_lines(str(result)), data, DONE if result.same else DIFFERENT)
