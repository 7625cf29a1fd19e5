"""What all commands share: their outcome, their parser, options that mean the same everywhere."""

import argparse
import difflib
import json
import os
import re
import shutil
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn

from replearn.errors import ReplearnError, printable
from replearn.words import PATIENCE, Facts, wrapped

if TYPE_CHECKING:
    from replearn.documents import Document
    from replearn.glm import GlmDesign
    from replearn.reports.policy import Kind, Policy
    from replearn.study import GlmStudy
    from replearn.tables import CsvOptions, Table

DONE = 0  # or: the same model, or an audit within its bound
DIFFERENT = 1  # the models differ, or an audit exceeds, or a check finds what would stop a fit
BAD_INPUT = 2  # or bad usage
BUG = 70  # not 1, which would say that two models differ
CLOSED_PIPE = 141

#: What a data owner lets leave.
_POLICY = "replearn.policy.json"

#: Columns of text that nobody exceeds.
WIDEST = 78


@dataclass(frozen=True)
class Outcome:
    """What a command has to say, and its exit code; ``raw`` is for a different program.

    ``title`` and ``n_rows`` are those of the page, which may have more facts than the terminal.
    """

    facts: Facts
    code: int = DONE
    raw: str | None = None
    title: str = ""
    n_rows: int | None = None
    page: Facts | None = None


def answered(result: Any, title: str, is_bad: bool = False) -> Outcome:
    """What a result says; of a bad one with the exit code that a script looks for."""
    code = DIFFERENT if is_bad else DONE
    return Outcome(result.facts(), code, title=title, n_rows=getattr(result, "n_rows", None))


def width() -> int:
    """Columns of a line: those of the terminal, at most 78."""
    return max(20, min(shutil.get_terminal_size().columns, WIDEST))


class Parser(argparse.ArgumentParser):
    """Takes arguments as its help shows them, and complains in one line."""

    as_json = False  # whether errors, too, are one JSON object on standard output
    running: "Parser | None" = None  # that of the command, once it is known
    inputs: tuple[str, ...] = ()  # of the command that runs: a policy may lie beside them

    def __init__(self, *args: Any, **settings: Any) -> None:
        lines = partial(argparse.RawDescriptionHelpFormatter, width=width())  # of examples
        shared: dict[str, Any] = {"formatter_class": lines, "allow_abbrev": False}
        self.options: dict[str, str] = {}  # by the parameter that each sets
        super().__init__(*args, **shared | settings)

    def add(self, usage: str, text: str, **settings: Any) -> None:
        """Add an argument: its name and that of its value, as "--out FILE", and its help."""
        name, _, value = usage.partition(" ")
        if value:
            settings["metavar"] = value
        action = self.add_argument(name, help=text.replace("%", "%%"), **settings)
        if action.option_strings:
            self.options[action.dest] = name

    def add_shared(self, *names: str) -> None:
        """Add arguments that mean the same in several commands."""
        for name in names:
            usage, text, settings = SHARED[name]
            self.add(usage, text, **settings)

    def error(self, message: str) -> NoReturn:
        """Exit with the code of bad usage."""
        said = _CHOICE.sub(_one_of, message)
        complain("error", f"{said}. See {self.prog} --help.")  # it may hold what was typed
        self.exit(BAD_INPUT)


#: What argparse says of a word that is none of a list; some versions quote those of the list.
_CHOICE = re.compile(r"^argument (.+): invalid choice: ('.*') \(choose from (.+)\)$")


def _one_of(match: re.Match[str]) -> str:
    """Rule, value and remedy: all of a short list, of commands those that look alike."""
    name, typed, listed = match.groups()
    listed = listed.replace("'", "")
    if name != "COMMAND":
        return f"{name} must be one of {listed}, got {typed}"
    known = re.findall(r"\w+", listed)
    said = f"there is no command {typed}"
    for alike in difflib.get_close_matches(typed.strip("'"), known, n=1, cutoff=0.75):
        said += f", but there is {alike!r}"
    return said


def names(text: str) -> list[str]:
    """Names with commas between them."""
    listed = [name.strip() for name in text.split(",")]
    if not all(listed):
        raise argparse.ArgumentTypeError(f"must be names with commas between them, got {text!r}")
    return listed


_OF_COLUMNS: dict[str, Any] = {"type": names, "default": []}

#: How a CSV file is written.
CSV = ("delimiter", "decimal", "thousands")
#: Arguments of several commands: name and value, help, and how argparse reads them.
SHARED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "study": ("study STUDY", "the study file", {}),
    "model": ("model MODEL", "a model file", {}),
    "table": ("table TABLE", "your rows: .csv, .csv.gz, .parquet, .npz or .svm", {}),
    "seed": (
        "--seed TEXT",
        "published; any text (default 0)",
        {"default": "0", "dest": "shared_seed"},
    ),
    "kind": (
        "--kind",
        "what the target is: classes (default), a measurement, a count",
        {"choices": ("logistic", "linear", "poisson"), "default": "logistic"},
    ),
    "categories": (
        "--categories COLUMNS",
        "columns whose numbers are names of levels, with commas",
        _OF_COLUMNS,
    ),
    "drop": ("--drop COLUMNS", "columns to leave out, with commas", _OF_COLUMNS),
    "opened": (
        "--opened FILE",
        "the original's model, or what opens a sealed study; or both",
        {"action": "append", "default": []},
    ),
    "delimiter": (
        "--delimiter SIGN",
        'between cells: "," ";" "|" or tab (default: as the header)',
        {},
    ),
    "decimal": ("--decimal SIGN", 'before decimals: "." or ","', {"default": "."}),
    "thousands": (
        "--thousands SIGN",
        "between groups of three digits (default: none)",
        {"default": ""},
    ),
    "intercept": (
        "--no-intercept",
        "a boundary through the origin",
        {"dest": "fit_intercept", "action": "store_const", "const": False},
    ),
    "page": ("--page FILE", "write the result as a page, too (HTML, printable)", {}),
}


def refuse_unused(options: Namespace, road: str, *parameters: str) -> None:
    """Refuse options that were typed and that this road does not use: nothing is ignored."""
    command: Parser = options.command
    unused = [
        command.options[name] for name in parameters if command.options[name] in options.typed
    ]
    if unused:
        raise ReplearnError(f"{road} does not use {', '.join(unused)}. Leave it out.")


def typed_options(words: Iterable[str]) -> frozenset[str]:
    """The options among the words of a command line, as they were typed."""
    before = takewhile(lambda word: word != "--", words)
    return frozenset(word.partition("=")[0] for word in before if word.startswith("--"))


def in_options(message: str) -> str:
    """A message of the library in the words of the command line: one line, options for parameters.

    An option is stored under the name of the parameter that it sets.
    """
    message = " ".join(message.split())
    for name, option in Parser.running.options.items() if Parser.running else ():
        # a list of one name is that name; others are as Python writes them
        message = re.sub(rf"(?<![\w'-]){name}=\['([^' ]+)'\]", rf"{option} \1", message)
        message = re.sub(rf"(?<![\w'-]){name}=(?=[,)])", option, message)
        message = re.sub(rf"(?<![\w'-]){name}=", f"{option} ", message)
        if "_" in name:
            message = re.sub(rf"(?<![\w'-]){name}(?![\w'-])", option, message)
    return message


def complain(kind: str, message: object) -> None:
    """Say what is wrong on standard error: in one line, which a terminal gets in whole words."""
    if Parser.as_json and kind != "warning" and sys.stdout is not None:
        print(json.dumps({"error": in_options(str(message))}))
    if sys.stderr is not None:
        line = printable(f"replearn: {kind}: {in_options(str(message))}")
        if sys.stderr.isatty():
            line = "\n".join(wrapped(line, width()))
        print(line, file=sys.stderr)


@contextmanager
def working(label: str) -> Iterator[None]:
    """Show on a terminal, after two seconds, what goes on and for how long."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield
        return
    done = threading.Event()

    def show() -> None:
        start = time.monotonic()
        if done.wait(PATIENCE):
            return
        while True:
            stream.write(f"\r{printable(label)}: {time.monotonic() - start:.0f} s")
            stream.flush()
            if done.wait(1.0):
                stream.write("\r\x1b[K")  # a clean line for what comes next
                stream.flush()
                return

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


# --- the paper's algorithms -----------------------------------------------------------------------

ALGORITHMS = ("svm", "sgd", "net", "dp", "box", "foam")

#: What is promised: default (that of the estimators) and help of each number.
PROMISE = {
    "margin": (0.1, "margin of the population, rows scaled to norm 1"),
    "max_error": (0.05, "share of new rows that may be wrong"),
    "max_disagreement": (0.1, "probability of different models"),
    "failure_prob": (0.05, "probability of a larger error"),
}


def add_promise(parser: Parser, also: tuple[str, ...] = (), default: str = "svm") -> None:
    """Add the algorithm, what it promises, and its mode."""
    parser.add(
        "--algorithm",
        f"line of Table 1 (default {default})",
        choices=(*also, *ALGORITHMS),
        default=default,
    )

    add_numbers(parser)
    parser.add(
        "--mode",
        "sizes that are calibrated (default), proved, or as the paper prints them",
        choices=("practical", "certified", "paper"),
        default="practical",
    )
    parser.add(
        "--bits N", "published per component, 0 to 4", type=int, default=0, dest="sketch_bits"
    )
    parser.add_shared("intercept")


def add_numbers(parser: Parser, **defaults: float) -> None:
    """Add what is promised, with defaults of a command's own."""
    for name, (usual, text) in PROMISE.items():
        value = defaults.get(name, usual)
        option = f"--{name.replace('_', '-')} X"
        parser.add(option, f"{text} (default {value:g})", type=float, default=value)


#: Parameters of a fit of the paper's algorithms, which no other fit uses.
OF_HALFSPACES = (*PROMISE, "mode", "sketch_bits", "fit_intercept")


def promise_of(options: Namespace) -> dict[str, Any]:
    """What `add_promise` has read, as arguments of an estimator."""
    name = options.algorithm
    if name not in ("svm", "sgd"):
        refuse_unused(options, f"--algorithm {name}", "sketch_bits")
    if options.mode == "practical" and name != "dp":  # an error that is a mean over seeds
        refuse_unused(options, f"the practical mode of {name}", "failure_prob")
    return {name: getattr(options, name) for name in OF_HALFSPACES}


# --- files ----------------------------------------------------------------------------------------


def csv_options(options: Namespace) -> "CsvOptions":
    """How the CSV files of this command are written."""
    from replearn.tables import CsvOptions

    if not _may_be_csv(options.table):
        refuse_unused(options, f"reading {options.table}", *CSV)
    # a shell makes it hard to type a tab
    delimiter = {"tab": "\t", "\\t": "\t"}.get(options.delimiter, options.delimiter)
    return CsvOptions(delimiter, options.decimal, options.thousands)


def _may_be_csv(path: str) -> bool:
    """Whether a table may be text with delimiters."""
    return not path.lower().endswith((".parquet", ".pq", ".npz", ".svm", ".feather", ".arrow"))


def lab_table(options: Namespace, design: "GlmDesign") -> "Table":
    """The rows of a lab, with the columns that a study needs and no others."""
    from replearn.study import table_of

    target = getattr(options, "target", None) or design.target
    return table_of(design, options.table, csv_options(options), target)


#: Options that name what a command reads.
_INPUTS = ("table", "study", "model", "models", "file", "sums", "state", "opened", "counted")


def inputs_of(options: Namespace) -> list[str]:
    """The paths that a command reads."""
    paths: list[str] = []
    for name in _INPUTS:
        value = getattr(options, name, None)
        paths += [value] if isinstance(value, str) else value or []
    return paths


def check_output_path(
    path: str | None,
    kind: "Kind | None",
    formats: tuple[str, ...] | None = (),
    beside: Sequence[str] = (),
) -> None:
    """Refuse before the work what could not, or must not, be written; no kind: it stays here.

    ``formats`` are those of the documents that the command may write there, as `check_replaced`
    takes them. None: the caller looks.
    """
    if path is None:
        return
    if kind is not None:
        may_leave(kind)
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or (os.path.exists(path) and not os.path.isfile(path)):
        raise ReplearnError(f"{path} must be a file, got a folder or a device. Name a file.")
    if not os.path.isdir(folder):
        raise ReplearnError(f"{path} cannot be written: {folder} is no folder. Make it first.")
    if not os.access(folder, os.W_OK):
        raise ReplearnError(f"{path} cannot be written: no right to write to {folder}.")
    for read in (*Parser.inputs, *beside):
        same = os.path.realpath(path) == os.path.realpath(read)
        if same or (os.path.exists(path) and os.path.exists(read) and os.path.samefile(path, read)):
            raise ReplearnError(f"{path} is a file that this command needs. Name a different one.")
    if formats is not None:
        from replearn.documents import check_replaced

        check_replaced(path, formats, private=kind is None)


def keep(kept: "dict[str, Document]") -> None:
    """Write all private files, or none: of two that publish at one time one succeeds."""
    absent = [path for path, document in kept.items() if not _is_kept(path, document)]
    written: list[str] = []
    try:
        for path in absent:
            kept[path].save(path, private=True, new=True)
            written.append(path)
    except ReplearnError:
        # half of what belongs together would look like all of it
        for path in written:
            os.unlink(path)
        raise


def _is_kept(path: str, document: "Document") -> bool:
    """Whether the same file is there; what an earlier study needs is not written over."""
    if not os.path.lexists(path):
        return False
    with suppress(ReplearnError):
        if type(document).load(path) == document:
            return True
    raise ReplearnError(
        f"{path} is there already and belongs to an earlier study. Keep the new one elsewhere "
        "(--keep FILE), or remove this one if its study was never sent."
    )


def may_leave(
    kind: "Kind", n_rows: int | None = None, n_numbers: int | None = None, study: Any = None
) -> None:
    """Refuse what a data owner's policy does not let leave."""
    for policy in policies_here():
        policy.allow(kind, n_rows, n_numbers)
        if study is not None:
            policy.allow_levels(study)


def study_may_leave(study: "GlmStudy") -> None:
    """The same of a study, whose levels count too."""
    may_leave("study", study.n_original, study.design.n_numbers, study)


def policies_here() -> "list[Policy]":
    """The data owner's policies: in the working folder, beside each input, and as named."""
    # several names of one file are one policy
    inputs = {*Parser.inputs, *map(os.path.realpath, Parser.inputs)}  # links, and what they name
    folders = {os.path.dirname(path) for path in inputs}
    places = sorted(os.path.join(folder, _POLICY) for folder in {"", *folders})
    paths = {os.path.realpath(place): place for place in places if _is_there(place)}
    if named := os.environ.get("REPLEARN_POLICY"):
        paths[os.path.realpath(named)] = named
    if not paths:
        return []
    from replearn.reports.policy import Policy

    return [Policy.load(path) for path in paths.values()]


def _is_there(path: str) -> bool:
    """Whether a file has this name; one that cannot be read is there, so that it is not passed by.

    `os.path.exists` takes a folder that nobody may enter, and a link to nowhere, for nothing.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as problem:
        raise ReplearnError(
            f"{path} must be readable or absent, since it may forbid what you ask for: "
            f"{problem.strerror}. Ask the data owner."
        ) from None
    return True


def least_count() -> int:
    """Rows of each term and class of sums: as the policy says, else ten."""
    from replearn.tables import LEAST_COUNT

    return max((policy.least_count for policy in policies_here()), default=LEAST_COUNT)
