"""The command line: ``replearn COMMAND``, with one module of this package for each command.

Exit codes: 0 done, or the same model; 1 the models differ, or a check finds what would stop a fit;
2 bad usage or bad input, with one line on standard error; 70 a bug of replearn; 130 interrupted;
141 the reader of a pipe went away. With ``--json`` a command prints one JSON object and nothing
else on standard output.

Nothing heavy is imported before the arguments are parsed: functions of commands import what they
need.
"""

import json
import os
import signal
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import takewhile
from typing import Any

from replearn import __version__
from replearn.cli.command import (
    BAD_INPUT,
    BUG,
    CLOSED_PIPE,
    DONE,
    Outcome,
    Parser,
    check_output_path,
    complain,
    in_options,
    inputs_of,
    may_leave,
    typed_options,
    width,
)
from replearn.errors import ReplearnError
from replearn.words import counted

__all__ = ["main", "COMMANDS"]

#: Commands in the order of the help; each is a module with EPILOG, add_arguments and run.
COMMANDS = {
    "demo": "two simulated labs, end to end, in seconds",
    "publish": "fit an original and write the study that others replicate",
    "replicate": "fit a study on your own rows: the same model?",
    "check": "what would go wrong with your table, without fitting",
    "update": "the original's model, recalibrated on your rows",
    "bundle": "a folder with all that a lab needs to replicate, offline",
    "show": "explain a file of replearn",
    "compare": "are these models the same?",
    "evaluate": "performance of a model on labelled rows",
    "predict": "predictions of a model for the rows of a table",
    "export": "write a model as SQL, CSV or ONNX",
    "audit": "how often two labs get the same model, by counting",
    "sums": "a lab's part of a joint fit: sums, no rows",
    "combine": "add up the sums of labs: the next round, or the model",
    "fit": "fit one of the paper's algorithms",
    "plan": "how many rows the paper's algorithms need",
    "table": "Table 1 of the paper, with numbers",
    "shuffle": "put the rows of a file into a random order",
}

#: Different warnings of one command that are shown.
_MOST_WARNED = 5

_EPILOG = """\
examples:
  replearn demo
  replearn publish a.csv --target died --out study.json
  replearn replicate study.json b.csv

exit codes: 0 done, or the same model; 1 a different model, or something would
  stop a fit; 2 bad usage or input; 130 interrupted
"""


def _parser(chosen: str | None) -> Parser:
    """The parser; only the chosen command has its options yet."""
    parser = Parser(
        prog="replearn",
        description="Fit a model, publish a study, and let other labs get exactly the same model.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"replearn {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    # options of the other commands would cost their imports
    for name, line in COMMANDS.items():
        if name != chosen:
            commands.add_parser(name, help=line)
            continue
        module = import_module(f"replearn.cli.{name}")
        command = commands.add_parser(
            name,
            help=line,
            description=f"{line[0].upper()}{line[1:]}{'' if line[-1] == '?' else '.'}",
            epilog=module.EPILOG,
        )
        module.add_arguments(command)
        command.add("--json", "print one JSON object instead of text", action="store_true")
        command.add("--details", "print all details", action="store_true")
        command.set_defaults(run=module.run, command=command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.
    """
    # small products lose most of their time when several threads wait for each other
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    given = list(sys.argv[1:] if arguments is None else arguments)
    Parser.as_json = "--json" in given
    if sys.stdout is None:
        complain("error", "standard output is closed. Send it to a file, or to /dev/null.")
        return BAD_INPUT
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names are not ours

    Parser.running = None
    try:
        return _run(given)
    except _interrupts():
        raise KeyboardInterrupt from None
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except Exception as problem:
        return _explain(problem)


def _run(given: list[str]) -> int:
    """Parse, run the command, write its page and print its answer."""
    # 1 only the parser of the command that was named is complete
    parser = _parser(next((word for word in given if word in COMMANDS), None))
    if not given:
        parser.print_help()
        return DONE
    options, unknown = parser.parse_known_args(given)
    # errors are told in the words of its options
    command = Parser.running = options.command
    if unknown:
        command.error(f"unrecognized arguments: {' '.join(unknown)}{_commas(given, unknown)}")
    Parser.inputs = tuple(inputs_of(options))
    options.typed = typed_options(given)

    # 2 a page that could not be written is refused before the work
    page = getattr(options, "page", None)
    _check_page(page, options)
    with _warnings_in_one_line() as warned:
        outcome: Outcome = options.run(options)
    if page is not None:
        _write_page(page, outcome)

    # 3 the answer, in the form that was asked for
    if options.json:
        print(json.dumps(outcome.facts.data() | {"warnings": warned}, allow_nan=False))
    elif outcome.raw is not None:
        sys.stdout.write(outcome.raw)
    else:
        more = "--details, --page FILE" if "page" in options and page is None else "--details"
        print(outcome.facts.text(width(), options.details, more))
    sys.stdout.flush()
    return outcome.code


def _commas(given: list[str], unknown: list[str]) -> str:
    """A remedy for names that follow an option's first one with a space in place of a comma."""
    first = given.index(unknown[0])
    option, *names = given[max(first - 2, 0) : first] or [""]  # a command may come twice
    if not names or not option.startswith("--") or unknown[0].startswith("-"):
        return ""
    more = takewhile(lambda word: not word.startswith("-"), unknown)
    return f". Several names have commas between them: {option} {','.join([*names, *more])}"


def _write_page(path: str, outcome: Outcome) -> None:
    """Write the result as a page, if the data owner lets it leave."""
    if not outcome.title:
        complain("warning", "no page was written: this is a round in between.")
        return
    from replearn.documents import check_page, write_atomically

    may_leave("page", outcome.n_rows)
    check_page(path)
    text = (outcome.page or outcome.facts).html(outcome.title)
    write_atomically(path, text.encode("utf-8", "replace"))


def _explain(problem: Exception) -> int:
    """Say in one line what stopped a command; what nobody expected is a bug."""
    if (words := _remediable(problem)) is not None:
        complain("error", words)
        return BAD_INPUT

    # what nobody can: developers get the traceback
    if sys.flags.dev_mode:
        raise problem
    complain(
        "internal error",
        f"{type(problem).__name__}: {problem}. This is a bug of replearn; report it with what "
        "python -X dev -m replearn prints in its place.",
    )
    return BUG


def _remediable(problem: Exception) -> str | None:
    """What a user can do something about, in words; None for anything else."""
    if isinstance(problem, ReplearnError):
        return str(problem)
    if isinstance(problem, MemoryError):
        return "there is not enough memory for this table. Use fewer columns or rows."
    if isinstance(problem, ModuleNotFoundError):
        name = problem.name or ""
        return (
            f"this needs the package {name}, which is not installed. Run pip install "
            f"{name.partition('.')[0]}."
        )
    if not isinstance(problem, OSError):
        return None

    from replearn.documents import system_words

    words = system_words(problem)
    if problem.filename:
        return f"{problem.filename}: {words}"
    return words


def _interrupts() -> type[BaseException]:
    """What an interrupt raises: anything, if it stops an import."""
    came = getattr(signal.getsignal(signal.SIGINT), "came", False)
    return BaseException if came else KeyboardInterrupt


def _check_page(page: str | None, options: Namespace) -> None:
    """Refuse a page over what is read, over other outputs, and over what is no page."""
    if page is None:
        return
    from replearn.documents import check_page

    others = [getattr(options, name, None) for name in ("out", "keep", "study_out")]
    check_output_path(page, "page", None, [path for path in others if path])
    check_page(page)


@contextmanager
def _warnings_in_one_line() -> Iterator[list[str]]:
    """Show warnings without file names and source lines; collect them for ``--json``."""
    collected: list[str] = []

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if (line := in_options(str(message))) in collected:
            return
        collected.append(line)
        if len(collected) <= _MOST_WARNED:
            complain("warning", message)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield collected
    # an audit fits forty times, and may warn at each
    if len(collected) > _MOST_WARNED:
        complain(
            "warning", f"{counted(len(collected) - _MOST_WARNED, 'more warning')}: see --json."
        )
