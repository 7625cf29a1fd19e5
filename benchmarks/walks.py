"""How many functions, in how many files of the package, one call walks through.

    python benchmarks/walks.py             # counts
    python benchmarks/walks.py --walk      # and the functions, in the order of their first call

Every function of the package counts that is entered at least once, helpers, checks and methods
alike; comprehensions and compiled code do not. Each call is made once before, so that nothing is
imported or compiled in the walk.
"""

import argparse
import os
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import replearn as rl
from replearn.cli import main as command
from replearn.datasets import load_readmission, make_margin

PACKAGE = os.path.dirname(os.path.abspath(rl.__file__)) + os.sep


def walk_of(call):
    """Functions of the package that a call enters, in order."""
    found = {}

    def look(frame, event, _):
        code = frame.f_code
        ours = code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<")
        if event == "call" and ours:
            found[f"{code.co_filename[len(PACKAGE) :]}:{code.co_qualname}"] = None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
        threading.setprofile(look)
        sys.setprofile(look)
        try:
            call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return list(found)


def calls(folder):
    """What is walked, by name."""
    X, y = make_margin(1203, 10, margin=0.3, random_state=0)
    table = load_readmission("Ashford", 4000)
    table.to_parquet(folder / "a.parquet")
    load_readmission("Birchwood", 4000).to_parquet(folder / "b.parquet")
    a, b, study, model = (
        str(folder / name) for name in ("a.parquet", "b.parquet", "s.json", "m.json")
    )

    def run(*words):
        for made in ("s.json", "a.model.json", "m.json"):
            if words[0] != "replicate" or made == "m.json":
                (folder / made).unlink(missing_ok=True)
        code = command([*words, "--json"])
        assert code == 0, code

    return {
        "fit(X, y), SVM": lambda: rl.ReplicableSVMClassifier(margin=0.3).fit(X, y),
        "fit(X, y), logistic": lambda: rl.ReplicableLogisticClassifier().fit(X, y),
        "publish, Parquet": lambda: run("publish", a, "--target", "readmitted", "--out", study),
        "replicate, Parquet": lambda: run("replicate", study, b, "--out", model),
    }


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--walk", action="store_true", help="print the functions too")
    options = parser.parse_args()
    print(f"{'':<22}{'functions':>10}{'files':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for name, call in calls(Path(folder)).items():
            quiet = os.open(os.devnull, os.O_WRONLY)
            kept = os.dup(1)
            sys.stdout.flush()
            os.dup2(quiet, 1)  # what commands print
            try:
                functions = walk_of(call)
            finally:
                sys.stdout.flush()
                os.dup2(kept, 1)
            files = {function.split(":")[0] for function in functions}
            print(f"{name:<22}{len(functions):>10}{len(files):>7}")
            for function in functions if options.walk else ():
                print(f"    {function}")


if __name__ == "__main__":
    main()
