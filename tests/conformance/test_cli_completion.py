"""Completion, in a real bash: the script is sourced and its function is driven."""

import json
import shutil
import subprocess
import sys

import pytest

from replearn.cli import main
from replearn.cli.parser import COMMANDS

pytest.importorskip("shtab")

#: Sources the script $1 and completes the last of the other words, as a TAB after it would.
DRIVE = """
source "$1"; shift
[[ $(complete -p replearn) =~ -F\\ ([^ ]+) ]]
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
"${BASH_REMATCH[1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "replearn.bash"
    command = [sys.executable, "-m", "replearn", "completion", "bash"]
    path.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    return path


@pytest.fixture
def tab(script, tmp_path):
    """``tab(line)``: what bash offers for the last word of the line, in a folder of two files."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    for name in ("site_a.csv", "with space.csv"):
        (tmp_path / name).touch()

    def press(line):
        command = ["bash", "--norc", "--noprofile", "-c", DRIVE, "bash", script, *line.split(" ")]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=30)
        assert (done.returncode, done.stderr) == (0, "")
        return set(done.stdout.split("\n")) - {""}

    return press


def test_commands(tab):
    assert tab("replearn fi") == {"fit"}
    assert tab("replearn ") == {command.__name__.rpartition(".")[2] for command in COMMANDS}


def test_options(tab):
    assert tab("replearn fit --ma") == {"--margin", "--max-error", "--max-disagreement"}
    assert tab("replearn audit site_a.csv --pa") == {"--pairs"}
    assert tab("replearn show --ma") == set()


def test_choices(tab):
    assert tab("replearn fit site_a.csv --algorithm bo") == {"boost-box", "boost-foam"}
    assert tab("replearn completion ") == {"bash", "zsh", "tcsh"}


@pytest.mark.parametrize(
    "line",
    [
        "fit",
        "fit site_a.csv --out",
        "fit --protocol",
        "plan --pilot",
        "predict",
        "predict a.model.json",
        "compare a.model.json",
        "show --report",
        "audit --checkpoint",
    ],
)
def test_files(tab, line):
    assert tab(f"replearn {line} si") == {"site_a.csv"}
    assert tab(f"replearn {line} wi") == {"with space.csv"}


def test_numbers_are_not_completed_to_files(tab):
    assert tab("replearn fit --margin si") == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_every_shell_gets_a_script(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "max-disagreement" in script
    assert main(["completion", shell, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data == {"shell": shell, "script": script.removesuffix("\n"), "warnings": []}
    if shutil.which(shell) is not None:
        done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_without_shtab_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err == (
        "replearn: error: replearn completion needs the package shtab, which is not installed. "
        'Install it with: pip install "replearn[cli]"\n'
    )


def test_help_says_how_to_install_it(capsys):
    with pytest.raises(SystemExit):
        main(["completion", "--help"])
    text = capsys.readouterr().out
    assert "~/.local/share/bash-completion/completions/replearn" in text
    assert "source <(replearn completion bash)" in text
    assert "compinit" in text
    assert "~/.tcshrc" in text
