"""Words for a terminal: aligned lines, complaints, and nothing that steers it."""

import argparse
import errno
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from replearn.terminal import printable

if TYPE_CHECKING:
    from replearn.codes.model import Model


def aligned(lines: Sequence[tuple[str, str]]) -> str:
    """Names on the left, values in one column."""
    width = max(len(name) for name, _ in lines) + 2
    return "\n".join(f"{name:<{width}}{printable(value)}" for name, value in lines)


def counted(number: int, one: str, many: str) -> str:
    """A number with its noun: 1 batch, 2 batches."""
    return f"{number:,} {one if number == 1 else many}"


def chance(probability: float) -> str:
    """A probability; one that rounds to nothing is small, not impossible."""
    return "below 0.001" if probability < 0.0005 else f"{probability:.3f}"


def missing_words(columns: Mapping[str, Mapping[str, int]], n_rows: int, most: int = 8) -> str:
    """What is missing or unknown in columns, in one line."""
    found = [
        f"{name} " + " and ".join(f"{n:,} {kind}" for kind, n in counts.items() if n)
        for name, counts in list(columns.items())[:most]
    ]
    more = f", and {len(columns) - most} more columns" if len(columns) > most else ""
    unknown = any(counts.get("unknown") for counts in columns.values())
    why = " (unknown: in no published category)" if unknown else ""
    return printable(f"of {n_rows:,} rows: {', '.join(found)}{more}{why}")


def evidence_words(bits: float | None) -> str:
    """What a match is worth."""
    if bits is None:
        return "not known: the protocol does not say how hard its model is to guess"
    if bits < 1:
        return (
            f"a match is worth {bits:.1f} bits, next to nothing: who knows protocol and hint can "
            "guess the model, and sites can only veto it"
        )
    return (
        f"a match is worth {bits:.1f} bits: who knows protocol and hint, but has no rows, guesses "
        f"the model with probability {2.0**-bits:.2g}"
    )


def signal_words(
    p_values: Mapping[str, float | None], reasons: Mapping[str, str] | None = None
) -> str:
    """Whether the rows of the sites hold any signal, as they say; a match alone is no proof.

    Both are by file: p-values, None if it has none, and reasons why.
    """
    from replearn.stages.signal import LEVEL

    shown = [name for name, p in p_values.items() if p is not None and 0 <= p < LEVEL]
    none = [name for name, p in p_values.items() if p is not None and not 0 <= p < LEVEL]
    parts = [f"shown by the rows of {len(shown)} of {len(p_values)} sites, as their files say"]
    if none:
        parts.append(f"NOT by those of {_some(none)}")
    untested: dict[str, list[str]] = {}
    for name in (name for name, p in p_values.items() if p is None):
        untested.setdefault((reasons or {}).get(name, "the file does not say"), []).append(name)
    parts += [f"not tested at {_some(names)}: {reason}" for reason, names in untested.items()]
    return "; ".join(parts) + ". A match is no proof: noise and a pilot's own model can also match"


def _some(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


#: Words of Python and of the command line.
_OPTIONS = {
    'copies="allow"': "--allow-copies",
    "allow_unknown (on the command line --allow-unknown)": "--allow-unknown",
    "(target, on the command line --target)": "(--target)",
    " (in Python: drop)": "",
    "Use shuffle=True, or shuffle": "Leave --assume-shuffled out, or shuffle",
    "got shuffle=True": "without --assume-shuffled",
    "then use shuffle=False": "then use --assume-shuffled",
    "n_pairs": "--pairs",
    "n_samples": "--samples",
    "shared_seed": "--seed",
}

#: Parameters that are options with hyphens; plain English words only with a value.
_NAMES = re.compile(
    r"(?<![\w'\"./-])(max_disagreement|max_error|failure_prob|samples_per_site|audit_seed|hint_bits"
    r"|random_state|(?:mode|margin|algorithm|question)(?==))"
    r"(?:=(?P<quote>[\"']?)(?P<value>[\w.]+)(?P=quote))?(?![\w'\"])"
)


def in_options(message: str) -> str:
    """A message of the library in the words of the command line.

    Examples
    --------
    >>> in_options('above max_disagreement=0.1. Use mode="practical"; margin is a number.')
    'above --max-disagreement 0.1. Use --mode practical; margin is a number.'
    """

    def option(found: re.Match[str]) -> str:
        name, value = "--" + found[1].replace("_", "-"), found["value"]
        return name if value is None else f"{name} {re.sub(r'[.]+$', '.', value)}"

    for python, spoken in _OPTIONS.items():
        word = (
            rf"(?<!['\w]){re.escape(python)}(?!['\w])" if python[0].isalpha() else re.escape(python)
        )
        message = re.sub(word, spoken, message)
    return _NAMES.sub(option, message)


def complain(kind: str, message: object) -> None:
    """Say what is wrong in one line on standard error."""
    line = " ".join(in_options(str(message)).split())
    print(printable(f"replearn: {kind}: {line}"), file=sys.stderr)


def command_line(options: argparse.Namespace) -> str:
    """The command as it was typed."""
    text = shlex.join(["replearn", *options.command_line])
    return text.encode("utf-8", "backslashreplace").decode()  # a name may be no UTF-8


def describe(model: "Model") -> str:
    """A model in half a line."""
    inputs = counted(model.n_features, "feature", "features")
    inputs += " and an intercept" if model.fit_intercept else ""
    return f"{model.recipe}, {inputs}, {counted(model.codes.size, 'code', 'codes')}"


def in_words(problem: OSError) -> str:
    """What the operating system complains about, and what to do."""
    remedies = {
        errno.ENOSPC: "Free some space, or name a folder on another disk",
        errno.EDQUOT: "Free some space, or name a folder on another disk",
        errno.EROFS: "Name a folder that can be written to",
    }
    where = f"{problem.filename}: " if problem.filename else ""
    remedy = remedies.get(problem.errno or 0, "Check the path and its rights")
    return f"{where}{problem.strerror or problem}. {remedy}."
