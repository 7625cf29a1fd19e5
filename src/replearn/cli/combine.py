"""``replearn combine``: sums of many sites become one model."""

import argparse
from typing import TYPE_CHECKING, Any

from replearn import __version__
from replearn.cli.files import check_report, check_target, save_page, writing
from replearn.cli.options import Parser, add_common
from replearn.cli.outcome import DIFFERENT, DONE, Outcome
from replearn.cli.text import aligned, command_line
from replearn.terminal import printable_lines

if TYPE_CHECKING:
    from replearn.coalitions.combining import Coalition
    from replearn.coalitions.rounds import CoalitionRound
    from replearn.study.protocol import Protocol


HELP = "add up the sums of many sites: the model of all their rows, to the bit"

EPILOG = """\
examples:
  replearn combine *.sums.json --protocol study.json --out model.json
  replearn combine round2/*.sums.json --protocol study.json --after round1.json --out round2.json

The model is that of `replearn fit` on the rows of all sites together, and has its fingerprint. A
protocol of several steps takes as many rounds: before the last one, --out is what the sites pass to
`replearn sums --after`.

exit codes: 0 done; 1 --expect was given and the fingerprint is another one (--out is written
  anyway); 2 bad usage or bad input

JSON keys: done (false: another round is needed), round, rounds, out, sites (site, n_rows,
  n_positive, same: the model is the same without it, codes_moved, shift, estimate and error in
  cells, unknown); when done also fingerprint, hint, rows, estimated_disagreement,
  disagreement_bound, bound_confidence, bound_assumes, agreement_without_a_site, heterogeneity (q,
  degrees, p_value, i_squared, by_number), as_expected (null without --expect), report; warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("sums SUMS", "files that `replearn sums` wrote", nargs="+")
    add_common(parser, "--protocol", "--lock")
    parser.add(
        "--out FILE",
        "where to write the model, or before the last round the state of the coalition",
        required=True,
    )
    parser.add("--after FILE", "what this command wrote after the last round")
    parser.add(
        "--hint FILE",
        "hint file of the first site (or its number), with hint bits; without it the "
        "coalition is the first",
    )
    add_common(parser, "--report", "--expect")


def run(options: argparse.Namespace) -> Outcome:
    """Combine, and write what comes out."""
    from replearn.coalitions.combining import Coalition, combine
    from replearn.coalitions.rounds import CoalitionRound
    from replearn.coalitions.site_sums import SiteSums
    from replearn.study.protocol import Protocol

    check_target(options.out)
    check_report(options.report)
    protocol = Protocol.load(options.protocol, options.lock)
    after = None if options.after is None else CoalitionRound.load(options.after, protocol)
    sites = [SiteSums.load(path, protocol) for path in options.sums]
    found = combine(protocol, sites, after, _hint(options.hint, protocol))
    if not isinstance(found, Coalition):
        assert protocol.design is not None  # combine has seen it
        return _unfinished(found, protocol.design.n_steps, options)
    from replearn.files.modelfile import save

    with writing(options.out):
        save(found.model, options.out, _provenance(found))
    if options.report is not None:
        from replearn.audits.coalition_page import coalition_report

        save_page(coalition_report(found, command_line(options)), options.report)
    return _finished(found, options)


def _hint(given: str | None, protocol: "Protocol") -> int | None:
    """What the first site published: a file, or just its number."""
    if given is None or given.isdecimal():
        return None if given is None else int(given)
    from replearn.study.hints import Hint

    return Hint.load(given).checked(protocol)


def _unfinished(found: "CoalitionRound", n_rounds: int, options: argparse.Namespace) -> Outcome:
    with writing(options.out):
        found.save(options.out)
    sites = [{"site": member[0] or None, "n_rows": member[1]} for member in found.members]
    lines = [
        ("coalition", f"{len(sites):,} sites, {sum(m[1] for m in found.members):,} rows"),
        ("round", f"{found.round} of {n_rounds} is done"),
        ("written to", str(options.out)),
        ("next", f"each site: replearn sums DATA --after {options.out} ..."),
    ]
    data = {
        "done": False,
        "round": found.round,
        "rounds": n_rounds,
        "out": options.out,
        "sites": sites,
    }
    return Outcome(aligned(lines), data)


def _finished(found: "Coalition", options: argparse.Namespace) -> Outcome:
    met = None if options.expect is None else options.expect == found.model.fingerprint
    text = f"{printable_lines(str(found))}\nwritten to     {options.out}"
    if options.report is not None:
        text += f"\nreport         {options.report}"
    if met is not None:
        text += f"\nexpected       {'yes, the same model' if met else f'NO: {options.expect}'}"
    data = found.data() | {
        "done": True,
        "round": found.n_rounds,
        "out": options.out,
        "as_expected": met,
        "report": options.report,
    }
    return Outcome(text, data, DIFFERENT if met is False else DONE)


def _provenance(found: "Coalition") -> dict[str, Any]:
    from replearn.stages.signal import ONLY_SUMS

    estimate = found.certificate.estimated_disagreement
    return {
        "estimated_disagreement": None if estimate is None else f"{estimate:.4g}",
        "replearn": __version__,
        "rows": found.n_rows,
        "signal_p": None,
        "signal_untested": ONLY_SUMS,
        "sites": len(found.sites),
    }
