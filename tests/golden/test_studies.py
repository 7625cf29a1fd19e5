"""Recorded fingerprints: studies and models that must never change.

A change that alters one belongs into "Changed outputs" of CHANGELOG.md and raises the format's
version. ``python -m tests.golden.test_studies`` writes the record anew.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from replearn.datasets import load_readmission
from replearn.study import Request, publish, replicate
from replearn.tables import open_table

RECORD = Path(__file__).with_name("studies.json")

REQUESTS = {
    "linear": Request(target="readmitted", shared_seed="golden", ridge=0.003),
    "splines": Request(
        target="readmitted",
        shared_seed=7,
        ridge=0.01,
        basis="splines",
        interactions=[("age", "nyha")],
        class_weight="balanced",
    ),
    "classes": Request(target="nyha", sketch_bits=2, ridge=0.01, drop=("readmitted",)),
    "number": Request(kind="linear", target="sodium", ridge=0.003),
    "count": Request(kind="poisson", target="prior_admissions", ridge=0.003, max_disagreement=0.1),
}


def labs(target: str):
    for centre in ("Ashford", "Birchwood"):
        columns = load_readmission(centre, 1200, as_frame=False)
        known = columns[target]
        if known.dtype != object:
            rows = ~np.isnan(known.astype(np.float64))
            columns = {name: values[rows] for name, values in columns.items()}
        yield open_table(columns, target=target)


def fingerprints(name: str) -> dict[str, str]:
    here, there = labs(REQUESTS[name].target)
    original = publish(here, REQUESTS[name])
    model, _ = replicate(original.study, there)
    return {
        "study": original.study.fingerprint,
        "original": original.model.fingerprint,
        "replication": model.fingerprint,
    }


@pytest.mark.parametrize("name", REQUESTS)
def test_studies_are_what_they_were(name):
    assert fingerprints(name) == json.loads(RECORD.read_text())[name]


if __name__ == "__main__":
    found = {name: fingerprints(name) for name in REQUESTS}
    RECORD.write_text(json.dumps(found, indent=2) + "\n")
