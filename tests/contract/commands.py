"""What tests of commands share: how one is run, the tables of three labs, and a joint round."""

import fcntl
import io
import os
import pty
import struct
import sys
import termios
import warnings
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

import numpy as np

from replearn.cli import main
from replearn.datasets import load_readmission

if TYPE_CHECKING:
    import pandas as pd

ROWS = 1200


def replearn(*words: str) -> tuple[int, str, str]:
    """Run a command in this process: exit code, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([*map(str, words)])
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def on_terminal(columns: int, *words: str) -> tuple[int, str]:
    """Run a command in a child of this process whose terminal has so many columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads at a fork
        child, terminal = pty.fork()
    if child == 0:
        sys.stdout, sys.stderr = (os.fdopen(number, "w") for number in (1, 2))
        os.environ.pop("COLUMNS", None)
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        try:
            code = main([*map(str, words)])
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.stdout.flush()
        os._exit(code)
    parts = []
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # Linux says so at the end
            break
        if not part:
            break
        parts.append(part)
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, b"".join(parts).decode().replace("\r\n", "\n")


#: Sums of all labs.
SUMS = "a.sums.json b.sums.json third.sums.json"


def lab(centre: str, seed: int = 0) -> "pd.DataFrame":
    table = load_readmission(centre, ROWS, seed=seed).rename(columns={"readmitted": "died"})
    table["ward"] = np.where(table["age"] > 70, "north", "south")
    return table.ffill().bfill()  # of few gaps a lab would send no sums


def a_draft() -> None:
    """Columns of three labs, the draft that they make, and sums of its first round."""
    columns = [f"{name}.columns.json" for name in ("a", "b", "third")]
    for name, out in zip(("a", "b", "third"), columns, strict=True):
        drop = ["--drop", "p_tree,p_logistic"] if name == "b" else []
        assert replearn("sums", f"{name}.csv", "--target", "died", "--out", out, *drop)[0] == 0
    found = replearn("combine", *columns, "--out", "draft.json")
    assert found[0] == 0, found
    a_round(with_state=False, study="draft.json")


def a_round(with_state: bool, study: str = "study.json") -> None:
    """Sums of three labs, of the first round or of the second."""
    for round_ in range(1 + with_state):
        state = ["--state", "next.json"] if round_ else []
        for name in ("a", "b", "third"):
            call = ["sums", study, f"{name}.csv", "--out", f"{name}.sums.json"]
            assert replearn(*call, *state)[0] == 0
        if with_state and not round_:
            replearn("combine", "study.json", *SUMS.split(), "--out", "next.json")
