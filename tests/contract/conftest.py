"""Files of three labs, in whose folder commands run."""

import os
from pathlib import Path

import numpy as np
import pytest

from replearn.datasets import make_margin
from tests.contract.commands import lab, replearn


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of two labs, a study and models: the files that the examples of --help name."""
    pd = pytest.importorskip("pandas")
    made = tmp_path_factory.mktemp("labs")
    first, second = lab("Ashford"), lab("Birchwood")
    first.to_csv(made / "a.csv", index=False)
    first.to_csv(made / "p.csv", index=False)
    risk = 1 / (1 + np.exp(-second["prior_admissions"] / 2 + 2))
    second.assign(p_tree=0.2, p_logistic=risk).to_csv(made / "b.csv", index=False)
    second.to_parquet(made / "b.parquet")
    second.to_parquet(made / "lab.parquet")
    third = lab("Castleton")
    third.to_csv(made / "third.csv", index=False)
    named = [one.assign(hospital=f"h{i}") for i, one in enumerate((first, second, third))]
    pd.concat(named).to_csv(made / "labs.csv", index=False)
    second.to_csv(made / "new.csv", index=False)
    X, y = make_margin(3000, 4, 0.4, random_state=0)
    rows = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    rows.to_csv(made / "data.csv", index=False)
    rows.to_parquet(made / "data.parquet")
    rows.to_csv(made / "other.csv", index=False)
    here = Path.cwd()
    os.chdir(made)
    try:
        code, text, _ = replearn("publish", "a.csv", "--target", "died", "--out", "study.json")
        assert code == 0, text
        for name in ("b", "c"):
            replearn("replicate", "study.json", "b.csv", "--out", f"{name}.model.json")
    finally:
        os.chdir(here)
    return made


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder
