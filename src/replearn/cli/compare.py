"""``replearn compare``: whether models are the same, also before anybody shows theirs."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replearn.cli.choice_files import compare_choices
from replearn.cli.files import check_report, check_target, save_page, writing
from replearn.cli.options import Parser
from replearn.cli.outcome import DIFFERENT, DONE, Outcome
from replearn.cli.scoring import piecewise_scores
from replearn.cli.text import aligned, command_line, evidence_words, signal_words
from replearn.errors import ReplearnError
from replearn.terminal import printable, printable_lines

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replearn.audits.sites import Sites
    from replearn.codes.model import Model


HELP = "say whether model files hold the same classifier"

EPILOG = """\
examples:
  replearn compare a.model.json b.model.json
  replearn compare *.model.json --rows new.csv --picture sites.svg
  replearn compare folder --picture sites.html
  replearn compare --commit a.model.json --protocol study.json --site oslo --out oslo
  replearn compare --reveal oslo.commitment.json oslo.opening.json rome.commitment.json ...

FILEs are two or more model files, or folders, of which all files *.model.json are taken. Models
are the same if their canonical bytes are; otherwise the part that differs is named, for each group
of sites that have the same model.

A bare fingerprint can be guessed, since a model has few codes. With --commit a site publishes a
salted hash first, which covers the protocol too, and the opening only when all sites have done
so. It prevents copying after the fact; it proves neither that a site has rows nor that sites do
not collude.

exit codes: 0 all have the same model, or committed; 1 different models; 2 bad usage or bad input

JSON keys: same, groups (the largest first, with fingerprint, sites, against_first), n_rows,
  rows_changed (between groups), files, fingerprints (of the files), picture, evidence_bits (of a
  match, if all carry one protocol; or null), signal_p (by file: whether its rows hold any signal,
  as the site says), warnings;
  of two models also: parts, differences, notes, n_codes_differing, n_codes, n_rows_changed,
  angle_degrees (null: other inputs);
  of choices: same, groups (with fingerprint, sites, chosen), against_first, files, fingerprints;
  with --commit: commitment, opening, protocol, digest, warnings; with --reveal: same,
  fingerprints (by site), protocol, warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("files FILE", "model files or folders of them", nargs="+")
    parser.add("--rows DATA", "rows: how many get another class from each model?")
    parser.add(
        "--picture FILE", "draw every site against every other one, as .svg or as a page, .html"
    )
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--commit", action="store_true", help="commit to one model file without showing it"
    )
    ways.add_argument(
        "--reveal",
        action="store_true",
        help="compare openings, checked against the commitments; FILEs are both, of all sites",
    )
    parser.add("--site NAME", "with --commit: name of this site")
    parser.add(
        "--protocol FILE", "with --commit: protocol of the study, which the commitment covers"
    )
    parser.add("--out STEM", "with --commit: STEM.commitment.json, STEM.opening.json")


def run(options: argparse.Namespace) -> Outcome:
    """Compare, commit or reveal."""
    if (options.commit or options.reveal) and (options.rows or options.picture):
        raise ReplearnError(
            "--rows and --picture are for models, got --commit or --reveal too. Leave one out."
        )
    if not options.commit and any((options.site, options.out, options.protocol)):
        raise ReplearnError(
            "--site, --out and --protocol belong to --commit. Add it, or leave them out."
        )
    if options.commit:
        return _commit(options)
    if options.reveal:
        return _reveal(options)
    return _compare(options)


def _compare(options: argparse.Namespace) -> Outcome:
    from replearn.audits.sites import compare_sites
    from replearn.files.choicefile import is_choice_file
    from replearn.files.modelfile import load

    _check_picture(options.picture)
    paths = _model_files(options.files)
    if is_choice_file(paths[0]):
        if options.rows is not None or options.picture is not None:
            raise ReplearnError("--rows and --picture are for models, got choices. Leave them out.")
        return compare_choices(paths)
    models = {path: load(path) for path in paths}
    classify = None if options.rows is None else partial(_labels, data=options.rows)
    sites = compare_sites(models, classify=classify)
    text, two = _in_words(sites, models)
    bits = _evidence(paths)
    if sites.same and bits is not None:
        text += f"\n  evidence: {evidence_words(bits)}"
    signals, reasons = _signals(paths)
    signal = signal_words(signals, reasons)
    text += f"\n  signal: {signal}"
    if options.picture is not None:
        _draw(sites, options, signal)
        text += f"\n  picture: {options.picture}"
    data = (
        sites.data()
        | two
        | {
            "files": paths,
            "fingerprints": [model.fingerprint for model in models.values()],
            "picture": options.picture,
            "evidence_bits": bits,
            "signal_p": signals,
        }
    )
    return Outcome(printable_lines(text), data, DONE if sites.same else DIFFERENT)


def _evidence(paths: Sequence[str]) -> float | None:
    """What a match is worth, if all models carry one protocol that says so."""
    from replearn.study.protocol import Protocol

    protocols = [Protocol.of_model_file(path) for path in paths]
    known = {protocol.fingerprint for protocol in protocols if protocol is not None}
    if None in protocols or len(known) != 1 or protocols[0] is None:
        return None
    return protocols[0].evidence_bits


def _signals(paths: Sequence[str]) -> tuple[dict[str, float | None], dict[str, str]]:
    """What each site's file says of its rows: the p-value of "no signal", or why there is none."""
    from replearn.files.jsonfile import read_json

    found: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    for path in paths:
        provenance = read_json(path)["provenance"]
        try:
            found[path] = float(provenance.get("signal_p"))
        except (TypeError, ValueError):  # anybody may have written it
            found[path] = None
            if provenance.get("signal_untested"):
                reasons[path] = str(provenance["signal_untested"])[:200]
    return found, reasons


def _model_files(places: Sequence[str]) -> list[str]:
    """The files, and those of folders; each once."""
    paths: list[str] = []
    for place in places:
        if not Path(place).is_dir():
            paths.append(place)
            continue
        found = sorted(str(path) for path in Path(place).glob("*.model.json"))
        found = found or sorted(str(path) for path in Path(place).glob("*.choice.json"))
        if not found:
            raise ReplearnError(
                f"{place} must hold files *.model.json, got none. Name the files one by one."
            )
        paths += found
    different = {Path(path).resolve(): path for path in reversed(paths)}
    kept = [path for path in paths if different[Path(path).resolve()] == path]
    kept = list(dict.fromkeys(kept))
    if len(kept) < 2:
        raise ReplearnError(f"compare needs at least two model files, got {len(kept)}.")
    return kept


def _in_words(sites: "Sites", models: "dict[str, Model]") -> tuple[str, dict[str, Any]]:
    """What to print, and more keys if there are just two models."""
    if len(models) != 2:
        return str(sites), {}
    from replearn.codes.comparison import compare

    result = compare(*models.values())
    if sites.changed is not None:
        changed = 0 if sites.same else sites.changed[0][1]
        result = replace(result, n_rows=sites.n_rows, n_rows_changed=changed)
    lines = [str(result)]
    lines += [f"  {model.fingerprint}  {printable(path)}" for path, model in models.items()]
    if not result.same and result.angle_degrees is not None:
        lines.append(f"  angle between the two normals: {result.angle_degrees:.3g} degrees")
    return "\n".join(lines), asdict(result)


def _labels(models: "Sequence[Model]", data: str) -> "Sequence[NDArray[Any]]":
    """Labels of the rows of a file by each model; models that read it alike share the reading."""
    import numpy as np

    alike: dict[object, list[int]] = {}
    for place, model in enumerate(models):
        reading = (model.feature_names, model.encoding, model.n_features)
        alike.setdefault(reading, []).append(place)
    labels: dict[int, NDArray[Any]] = {}
    for places in alike.values():
        chosen = [models[place] for place in places]
        pieces = [
            [
                found if model.is_numeric else model.decided(found)
                for model, found in zip(chosen, scores, strict=True)
            ]
            for scores in piecewise_scores(chosen, data, "the models")
        ]
        for place, parts in zip(places, zip(*pieces, strict=True), strict=True):
            found = np.concatenate(parts)
            numeric = models[place].is_numeric
            labels[place] = found if numeric else np.array(models[place].classes)[found]
    return [labels[place] for place in range(len(models))]


def _check_picture(path: str | None) -> None:
    """Refuse before the work a picture that could not be drawn after it."""
    if path is None:
        return
    if Path(path).suffix.lower() not in (".svg", ".html"):
        raise ReplearnError(f"--picture must end in .svg or .html, got {path!r}.")
    check_report(path)


def _draw(sites: "Sites", options: argparse.Namespace, signal: str) -> None:
    from replearn.audits.figures import sites_figure
    from replearn.audits.report import sites_report

    if Path(options.picture).suffix.lower() == ".svg":
        page = sites_figure(sites)
    else:
        page = sites_report(sites, command_line(options), signal)
    save_page(page, options.picture)


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
    protocol = None
    if options.protocol is not None:
        from replearn.study.protocol import Protocol

        protocol = Protocol.load(options.protocol).fingerprint
    commitment, opening = commit(load(options.files[0]).fingerprint, options.site, protocol)
    with writing(options.out):
        save_commitment(opening, places[1])  # first: a commitment without it is worthless
        save_commitment(commitment, places[0])
    text = aligned(
        [
            ("publish now", places[0]),
            ("keep secret", f"{places[1]}, until every site has published its commitment"),
            ("protocol", protocol or "none: name it with --protocol, if there is one"),
            ("digest", commitment.digest),
        ]
    )
    data = {
        "commitment": places[0],
        "opening": places[1],
        "protocol": protocol,
        "digest": commitment.digest,
    }
    return Outcome(text, data)


def _reveal(options: argparse.Namespace) -> Outcome:
    from replearn.study.commitments import Commitment, Opening, load_commitment, reveal

    items: list[Commitment | Opening] = [load_commitment(path) for path in options.files]
    result = reveal(
        [item for item in items if isinstance(item, Commitment)],
        [item for item in items if isinstance(item, Opening)],
    )
    data = {"same": result.same, "fingerprints": result.fingerprints, "protocol": result.protocol}
    return Outcome(printable_lines(str(result)), data, DONE if result.same else DIFFERENT)
