"""The command line: ``replearn COMMAND``, with one module of this package for each command.

Exit codes: 0 done, or the same model; 1 the models differ, or a check finds what would stop a fit;
2 bad usage or bad input, with one line on standard error; 3 an audit that decides nothing; 70 a bug
of replearn; 130 interrupted; 141 the reader of a pipe went away.
With ``--json`` a command prints one JSON object, whose keys its ``--help`` lists, and nothing else
on standard output.

Nothing heavy is imported before the arguments are parsed: the functions of the commands import
what they need.
"""

import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from replearn.cli.outcome import BAD_INPUT, BUG, CLOSED_PIPE, INTERRUPTED, CommandWarning, Outcome
from replearn.cli.parser import make_parser
from replearn.cli.text import complain, in_options, in_words
from replearn.errors import ReplearnError, ReplicabilityWarning, UselessModelWarning
from replearn.terminal import printable_lines

__all__ = ["main"]

#: Packages without which models can be checked, but not fitted.
_ONLY_FOR_SOME = {"joblib", "narwhals", "scipy", "sklearn", "threadpoolctl"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.
    """
    parser = make_parser()
    options = parser.parse_args(arguments)
    options.parser = parser  # for completions
    options.command_line = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _warnings_in_one_line() as warned:
            outcome: Outcome = options.run(options)
        if options.json:
            print(json.dumps(outcome.data | {"warnings": warned}, allow_nan=False))
        elif outcome.text:
            as_it_is = outcome.exact and not sys.stdout.isatty()
            print(outcome.text if as_it_is else printable_lines(outcome.text))
        sys.stdout.flush()
        return outcome.code
    except ReplearnError as problem:
        complain("error", problem)
        return BAD_INPUT
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except OSError as problem:
        complain("error", in_words(problem))
        return BAD_INPUT
    except KeyboardInterrupt:
        print("replearn: interrupted", file=sys.stderr)
        return INTERRUPTED
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in _ONLY_FOR_SOME:
            return _bug()
        complain(
            "error",
            f"this command needs {problem.name}, which is not installed. Run pip install replearn; "
            "with NumPy alone there are compare, plan, predict and show.",
        )
        return BAD_INPUT
    except Exception:
        return _bug()


def _bug() -> int:
    """Say that this is one."""
    print(printable_lines(traceback.format_exc()), file=sys.stderr)
    complain("internal error", "this is a bug of replearn; please report the lines above")
    return BUG


@contextmanager
def _warnings_in_one_line() -> Iterator[list[str]]:
    """Show warnings without file names and source lines; collect them for ``--json``."""
    collected: list[str] = []

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        collected.append(" ".join(in_options(str(message)).split()))
        complain("warning", message)

    with warnings.catch_warnings():
        for kind in (ReplicabilityWarning, UselessModelWarning, CommandWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = show
        yield collected
