"""Arguments that several commands share, and types of arguments."""

import argparse
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from replearn.cli.outcome import BAD_INPUT, CommandWarning
from replearn.terminal import printable
from replearn.warn import warn

#: What is promised: default (that of the estimators) and help of each number.
PROMISE = {
    "margin": (0.1, "margin of the population, rows scaled to length 1"),
    "max_error": (0.05, "share of new points that may be misclassified"),
    "max_disagreement": (0.1, "probability that two labs may get different models"),
    "failure_prob": (0.05, "probability that the error may exceed --max-error"),
}

#: Rows of Table 1.
ALGORITHMS = ("svm", "sgd", "net", "dp", "boost-box", "boost-foam")

#: Files, in the words of each shell that `replearn completion` knows; the first is ours.
FILES = {"bash": "_replearn_files", "zsh": "_files", "tcsh": "f"}

#: Values that are files or folders.
_PLACES = ("DATA", "DIR", "FILE", "FOLDER", "IN", "MODEL", "OUT", "PROTOCOL", "STEM", "SUMS")


class Parser(argparse.ArgumentParser):
    """Takes arguments as its help shows them, and complains in one line."""

    def add(self, usage: str, text: str, **settings: Any) -> None:
        """Add an argument: its name and that of its value, as "--out FILE", and its help."""
        name, _, value = usage.partition(" ")
        if value:
            settings["metavar"] = value
        action = self.add_argument(name, help=text, **settings)
        if value in _PLACES:
            action.complete = FILES  # type: ignore[attr-defined]  # where shtab looks for it

    def error(self, message: str) -> NoReturn:
        """Exit with the code of bad usage."""
        line = printable(" ".join(message.split()))  # it may hold what was typed
        self.exit(BAD_INPUT, f"{self.prog}: error: {line} (see {self.prog} --help)\n")


# --- types of arguments -------------------------------------------------------------------------


def margin(text: str) -> float | str:
    """A number, or the word that asks for a replicable choice."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"invalid float value: {text!r}; pass a number, or auto"
        ) from None


def positive(text: str) -> int:
    """A count."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def names(text: str) -> list[str]:
    """Names with commas between them."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"must be names with commas between them, got {text!r}")
    return found


def n_bytes(text: str) -> int:
    """A size in bytes, as 4096, 500M or 1.5G."""
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)([KMGT]?)B?", text.upper())
    if found is None:
        raise argparse.ArgumentTypeError(f"must be a size such as 500M or 4G, got {text!r}")
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2] or " "))


def seconds(text: str) -> float:
    """A time of at least 0."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", text):
        raise argparse.ArgumentTypeError(f"must be a number of seconds, got {text!r}")
    return float(text)


def share(text: str) -> float:
    """A number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be a number in (0, 1), got {text!r}")
    return value


def fingerprint(text: str) -> str:
    """A SHA-256 in hex."""
    if not re.fullmatch(r"[0-9a-f]{64}", text.lower()):
        raise argparse.ArgumentTypeError(f"must be 64 hexadecimal digits, got {text[:80]!r}")
    return text.lower()


# --- arguments of several commands --------------------------------------------------------------

#: Value, help, and what else the parser has to know of each.
_COMMON: dict[str, tuple[str, str, dict[str, Any]]] = {
    "--allow-unknown": (
        "",
        "go on although the protocol does not know more than 5 %% of the values of a column, or a "
        "column is empty",
        {"action": "store_true"},
    ),
    "--cluster": (
        "ADDRESS",
        "work on a Dask cluster: the address of its scheduler, or local for a cluster of processes "
        "on this machine",
        {},
    ),
    "--confidence": ("X", "default 0.95", {"type": share, "default": 0.95}),
    "--draw-date": ("DATE", "day of that draw, as 2027-05-06", {}),
    "--expect": (
        "FINGERPRINT",
        "exit with 1 unless what comes out has this fingerprint",
        {"type": fingerprint},
    ),
    "--features": ("N", "columns of an svmlight file", {"type": positive}),
    "--jobs": (
        "N",
        "threads (default: all cores); no model depends on it",
        {"type": positive, "default": -1},
    ),
    "--large": (
        "",
        "decode the model even if it has more than 2^18 features or a map of 2^24 numbers",
        {"action": "store_true"},
    ),
    "--lock": (
        "HASH",
        "refuse any protocol but the one with this hash, which the sites agreed on",
        {"type": fingerprint},
    ),
    "--protocol": ("FILE", "protocol of the study", {"required": True}),
    "--public-value": (
        "TEXT",
        "derive the seed from the protocol and a value nobody could choose",
        {},
    ),
    "--register": ("DRAW", "no seed yet; it will follow from this public draw", {}),
    "--report": ("FILE", "write a report for people, as HTML", {}),
    "--target": ("COLUMN", "label column; for .npz an array (default y)", {}),
}


def add_common(parser: Parser, *options: str) -> None:
    """Add options that mean the same in several commands."""
    for name in options:
        value, text, settings = _COMMON[name]
        parser.add(f"{name} {value}".rstrip(), text, **settings)


def add_promise(parser: Parser, auto_margin: bool = False) -> None:
    """Add what is promised, the mode and the intercept."""
    for name, (default, text) in PROMISE.items():
        kind = margin if name == "margin" else float
        words = f"{text}, or auto with svm" if name == "margin" and auto_margin else text
        parser.add(f"--{name.replace('_', '-')} X", f"{words} (default {default:g})", type=kind)
    parser.add(
        "--mode",
        "where the sizes come from: calibrated, proved, or the formulas of the paper",
        choices=("practical", "certified", "paper"),
        default="practical",
    )
    parser.add(
        "--no-intercept", "a boundary through the origin", dest="intercept", action="store_false"
    )


def add_training(parser: Parser) -> None:
    """Add what decides, with the rows, about the model: ``make_estimator`` reads it."""
    parser.add("--algorithm", "row of Table 1 (default svm)", choices=ALGORITHMS)
    add_promise(parser, auto_margin=True)
    parser.add("--seed", "published seed, the same at every lab: any text (default 0)")
    parser.add(
        "--protocol FILE",
        "protocol of the study, made by `replearn plan --pilot`; it replaces the options from "
        "--algorithm to --seed",
    )
    add_common(parser, "--lock")


def add_spreadsheet(parser: Parser, formats: str = "") -> None:
    """Add the option that keeps spreadsheets from computing anything."""
    parser.add(
        "--spreadsheet",
        f"{formats}put an apostrophe before text that a spreadsheet would take for a formula",
        action="store_true",
    )


def warn_of_formulas(texts: Iterable[Any], options: argparse.Namespace) -> None:
    """Mention text that a spreadsheet would compute, unless that was prevented."""
    from replearn.exports.coefficients import is_formula

    found = next((text for text in texts if is_formula(text)), None)
    if found is not None and not options.spreadsheet:
        warn(
            f"{found[:40]!r} begins like a formula, which a spreadsheet would compute. Pass "
            "--spreadsheet if the file is for one.",
            CommandWarning,
        )


#: Options that switch off what their attribute says.
_NEGATED = {"intercept": "--no-intercept", "shuffle": "--assume-shuffled"}


def given(options: argparse.Namespace, *names: str) -> list[str]:
    """Those of these options that were on the command line, as they are typed."""
    return [
        _NEGATED.get(name, f"--{name.replace('_', '-')}")
        for name in names
        if getattr(options, name, None) != options.command.get_default(name)
    ]


def given_promise(options: argparse.Namespace) -> dict[str, Any]:
    """The numbers of the promise that were on the command line."""
    return {name: getattr(options, name) for name in PROMISE if getattr(options, name) is not None}
