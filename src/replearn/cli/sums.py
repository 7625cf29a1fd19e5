"""``replearn sums``: a lab's part of a joint fit."""

import os
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from replearn.cli.command import (
    CSV,
    Outcome,
    Parser,
    check_output_path,
    csv_options,
    lab_table,
    least_count,
    may_leave,
    names,
    refuse_unused,
    working,
)
from replearn.errors import ReplearnError
from replearn.words import Facts, Row

if TYPE_CHECKING:
    from replearn.study import GlmStudy, LabColumns, LabSums, Share, State

EPILOG = """\
examples:
  replearn sums study.json lab.parquet --out lab.sums.json
  replearn sums study.json lab.parquet --state next.json --out lab.sums.json
  replearn sums study.json north.csv --shares north,east,west --out north.json
  replearn sums lab.parquet --target died --out lab.columns.json

the file holds sums over many rows. No file is made if a term, a class, or
both together have 1 to 9 rows (or fewer than a policy asks for), or if a few
rows outweigh all others: such sums show single patients. So do two terms that
few rows share, which are counted and told, two files of nearly the same rows,
and many rounds: answer each once (a fit takes about six).
Whoever combines sees your sums; with three or more labs the others see
totals only, and two labs get none.
With --shares nobody sees your sums: they are split into one random share for
each lab (north.for-east.json). Each adds up what it got with combine. What it
added up in the first round it sends to all labs: later rounds need --counted.
Without a study and with --target it holds quantiles and counts of columns
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("study STUDY", "the study file; none before there is one", nargs="?")
    parser.add_shared("table")
    parser.add("--out FILE", "the sums, to send to whoever combines", required=True)
    parser.add("--state FILE", "what combine gave after the last round (default: the first)")
    parser.add("--lab NAME", "your name (default: that of the table)")
    parser.add("--shares LABS", "secret shares, one for each of these labs", type=names)
    parser.add("--counted FILES", "shares: what all labs added up in the first round", type=names)

    # before there is a study: columns for a draft
    parser.add("--target COLUMN", "without a study: what labs will predict together")
    parser.add_shared("kind", "categories", "drop", *CSV)


def run(options: Namespace) -> Outcome:
    """Add up the lab's rows."""
    from replearn.study import GlmStudy, State, lab_sums

    name = options.lab or os.path.basename(options.table).split(".")[0]
    if options.study is None:
        refuse_unused(options, "a lab without a study", "state", "shares", "counted")
        check_output_path(options.out, "sums", ("replearn/columns",))
        return _columns(options, name)
    refuse_unused(options, "a lab with a study", "kind", "categories", "drop")

    # exact sums of this lab's rows
    study = GlmStudy.load(options.study)
    state = None if options.state is None else State.load(options.state)
    if options.shares is not None:
        return _shares(options, study, state, name)
    refuse_unused(options, "a lab without --shares", "counted")
    check_output_path(options.out, "sums", ("replearn/sums",))
    with working("adding up rows"):
        sums = lab_sums(
            study, lab_table(options, study.design), state, lab=name, least_count=least_count()
        )
    may_leave("sums", sums.rows, study.design.n_numbers)
    _refuse_difference(options.out, sums)
    sums.save(options.out)
    return Outcome(sums.facts())


def _refuse_difference(path: str, new: "LabSums | LabColumns") -> None:
    """Stop where the difference from the file that is there already shows single rows."""
    if not _is_filled(path):
        return
    old = type(new).load(path)
    of_old, of_new = _answers(old), _answers(new)
    if any(of_old[key] != of_new[key] for key in of_old.keys() & of_new.keys()):
        _refuse_few_more(path, old.rows, new.rows)


def _is_filled(path: str) -> bool:
    return os.path.exists(path) and os.path.getsize(path) > 0


def _refuse_few_more(path: str, before: int, after: int) -> None:
    """Stop where other sums are of nearly as many rows as those that are there."""
    if abs(before - after) < least_count():
        raise ReplearnError(
            f"sums must be of the rows of {path}, or of {least_count()} more or fewer: the "
            f"difference of both shows single rows. There are {before:,} rows in it, and "
            f"{after:,} now. Use the table of that file, or remove it if nobody has got it."
        )


def _answers(sent: "LabSums | LabColumns") -> dict[Any, Any]:
    """What a file says, by what was asked: the same rows give the same answers."""
    content = sent.content()
    if "columns" in content:
        parts = [content["target"], *content["columns"]]
        return {part["name"]: (sent.rows, part) for part in parts}
    study, state = content["study"], content["state"]
    return {study: sent.rows, (study, state): content}


def _shares(options: Namespace, study: "GlmStudy", state: "State | None", lab: str) -> Outcome:
    """Split the sums into a file for each lab."""
    from replearn.study import Share, lab_shares

    stem = options.out.removesuffix(".json")
    paths = {name: f"{stem}.for-{name}.json" for name in options.shares}
    may_leave("shares")
    for path in paths.values():  # private files: each is for the eyes of one lab
        check_output_path(path, None, ("replearn/share",))
    if state is None or state.newton is None:
        refuse_unused(options, "the round that counts", "counted")
    counted = [Share.load(path) for path in options.counted or ()]

    table = lab_table(options, study.design)
    with working("adding up rows"):
        shares = lab_shares(
            study,
            table,
            state,
            lab=lab,
            labs=options.shares,
            counted=counted,
            least_count=least_count(),
        )
    may_leave("shares", table.n_rows, study.design.n_numbers)
    _refuse_other_shares(study, state or study.begin(), shares, paths)
    for name, share in shares.items():
        share.save(paths[name], private=True)
    return Outcome(
        Facts(
            f"The sums of {lab!r} are split into shares of {len(shares)} labs: each is random.",
            [
                "Send each file to its lab alone, on a way that nobody else can read.",
                *(Row(f"for {name}", path) for name, path in paths.items() if name != lab),
                Row("keep", paths[lab]),
                f"Then: replearn combine STUDY *.for-{lab}.json --out {lab}.share.json",
            ],
            values={"done": False},
        )
    )


def _refuse_other_shares(
    study: "GlmStudy", state: "State", new: "dict[str, Share]", paths: dict[str, str]
) -> None:
    """Stop where two totals would differ by the rows of one lab, or by few of its rows."""
    from replearn.study import Share, joined_shares, unpack_total

    old = {name: Share.load(path) for name, path in paths.items() if _is_filled(path)}
    old = {name: one for name, one in old.items() if one.state == state.fingerprint}
    labs = tuple(sorted(new))
    others = [name for name, one in old.items() if one.labs != labs]
    if others and state.newton is not None:
        raise ReplearnError(
            f"shares of one round must be for the same labs, but {paths[others[0]]} is for "
            f"{', '.join(old[others[0]].labs)}: the difference of two totals shows the sums of a "
            "lab. Begin anew from a different state, or remove it if nobody has got it."
        )
    if others or len(old) < len(new):
        return

    # a lab that has all of its shares knows what they add up to
    before, after = joined_shares(old.values()), joined_shares(new.values())
    if (before != after).any():
        sums = [unpack_total(study, state, total)[0] for total in (before, after)]
        _refuse_few_more(paths[labs[0]], *(one.count("rows") for one in sums))


def _columns(options: Namespace, lab: str) -> Outcome:
    """Describe the lab's columns, for a study that labs will publish together."""
    from replearn.study import lab_columns
    from replearn.tables import open_table

    if options.target is None:
        raise ReplearnError(
            f"sums needs a study and a table, got {options.table} alone. Name both; --target is "
            "for labs that have no study yet."
        )
    table = open_table(options.table, target=options.target, csv=csv_options(options))
    table = table.without(options.drop)

    with working("looking at columns"):
        columns = lab_columns(table, options.kind, lab, options.categories, least_count())
    may_leave("sums", columns.rows)
    _refuse_difference(options.out, columns)
    columns.save(options.out)
    return Outcome(columns.facts())
