"""``replearn show``: what is in a model file."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from replearn.cli.choice_files import show_choice
from replearn.cli.files import check_target, save_page
from replearn.cli.options import Parser, add_common
from replearn.cli.outcome import Outcome
from replearn.cli.text import aligned, command_line, describe
from replearn.errors import ReplearnError

if TYPE_CHECKING:
    from replearn.codes.model import Model


_TOO_LARGE = (
    "{model.n_features:,} features take much time and memory to decode. Pass --large if you trust "
    "the file."
)


HELP = "print what is in a model file"

EPILOG = """\
examples:
  replearn show a.model.json
  replearn show a.model.json --report a.html

A model whose weights take more than about a second to compute is shown without them, unless --large
is given: a file of a few hundred bytes may declare millions of features.

JSON keys: fingerprint, model, feature_names, coef, intercept (both null if they are not computed),
  provenance, report, warnings; of a choice: fingerprint, choice, chosen, provenance, warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("model MODEL", "model file, or choice file")
    add_common(parser, "--report", "--large")


def run(options: argparse.Namespace) -> Outcome:
    """Show the model."""
    from replearn.exports.coefficients import in_words
    from replearn.files.choicefile import is_choice_file
    from replearn.files.jsonfile import read_json
    from replearn.files.modelfile import load

    if is_choice_file(options.model):
        return show_choice(options)
    model = load(options.model)
    provenance = read_json(options.model)["provenance"]
    decoded = model.is_halfspace and (options.large or not model.is_large)
    if options.report is not None and not decoded and model.is_halfspace:
        raise ReplearnError(
            f"a report of {options.model} needs its weights, and {_TOO_LARGE.format(model=model)}"
        )
    lines = [
        ("model", describe(model)),
        ("numbers" if model.is_numeric else "labels", _label_words(model)),
        ("seed", model.seed),
        ("code space", _space_words(model)),
        *(in_words(model) if model.has_probabilities else []),
        ("largest weights", _weight_words(model, decoded)),
        ("provenance", json.dumps(provenance)),
        ("fingerprint", model.fingerprint),
    ]
    names = None if model.feature_names is None else list(model.feature_names)
    data = {
        "fingerprint": model.fingerprint,
        "model": model.content(),
        "feature_names": names,
        "coef": model.coef.tolist() if decoded and options.json else None,
        "intercept": _plain(model.intercept) if decoded else None,
        "provenance": provenance,
    }
    if options.report is not None:
        from replearn.audits.report import model_report

        check_target(options.report)
        save_page(model_report(model, provenance, command_line(options)), options.report)
        lines.append(("report", options.report))
    return Outcome(aligned(lines), data | {"report": options.report})


def _label_words(model: "Model") -> str:
    if model.is_numeric:
        return getattr(model.space, "target_in_words", "")
    if model.n_classes > 2:
        which = "most probable one" if model.has_probabilities else "largest score"
        return ", ".join(map(repr, model.classes)) + f" (the {which})"
    return f"{model.classes[0]!r} and {model.classes[1]!r} (positive score)"


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _space_words(model: "Model") -> str:
    """What the codes of a model are, whatever its algorithm."""
    content = model.space.content()
    elsewhere = {"cap", "hint", "hint_bits", "threshold"} if model.has_probabilities else set()
    words = [
        f"{name} {value}"
        for name, value in content.items()
        if isinstance(value, int | str) and name not in elsewhere
    ]
    return f"{model.space.n_inputs:,} inputs, " + ", ".join(words)


def _weight_words(model: "Model", decoded: bool) -> str:
    if decoded:
        return ", ".join(f"{name} {weight:+.3f}" for name, weight in model.largest_weights(5))
    if not model.is_halfspace:
        return "none: a majority of halfspaces"
    return _TOO_LARGE.format(model=model)
