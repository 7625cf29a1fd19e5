"""The grid-search example runs, and its labs pick the same model more often than by best score."""

import importlib.util
import re
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "replicable_grid_search.py"


def test_grid_search_example(monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("replicable_grid_search", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    monkeypatch.setattr(example, "N_STUDIES", 3)
    example.main()
    table = capsys.readouterr().out.split("accuracy given up")[1]
    same = [int(share) for share in re.findall(r"(\d+)%", table)]
    assert len(same) == 3
    assert same[0] + 20 < min(same[1:])
