"""Write the planner's tables from the library: ``python docs/planner/make_tables.py``.

The page computes with the formulas of ``replearn.plans.cell_prices``; what is simulated or
integrated there comes from here. A test compares the file with the library, and the page with
both.
"""

import json
from pathlib import Path

from replearn.codes.hints import MAX_HINT_BITS
from replearn.plans.cell_prices import expected_range
from replearn.plans.hint_table import DISAGREEMENTS, N_CODES, RATIOS, VARIANCES

MAX_SITES = 64
PATH = Path(__file__).with_name("tables.js")


def tables() -> str:
    """The text of ``tables.js``."""
    found = {
        "maxBits": MAX_HINT_BITS,
        "codes": N_CODES,
        "disagreements": DISAGREEMENTS,
        "ratios": RATIOS,
        "variances": VARIANCES,
        # by number of sites; those of no and of one site are never asked for
        # the last digits depend on the machine's vector code
        "ranges": [0.0, 0.0] + [round(expected_range(n), 12) for n in range(2, MAX_SITES + 1)],
    }
    lines = ",\n".join(f'  "{name}": {json.dumps(value)}' for name, value in found.items())
    return f"// written by docs/planner/make_tables.py\nconst TABLES = {{\n{lines}\n}};\n"


if __name__ == "__main__":
    PATH.write_text(tables(), encoding="utf-8")
