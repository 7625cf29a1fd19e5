# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn", "pandas"]
# ///
"""What if the populations differ? A mismatch is a finding: it says what was found.

At Birchwood somebody measures creatinine in different units: the check notices it before the fit.
At Castleton old patients return far more often: the fit differs, and the replication names age.
"""

import os
import tempfile

import numpy as np

from replearn.cli import main
from replearn.datasets import load_readmission

os.chdir(tempfile.mkdtemp())
load_readmission("Ashford", 4000).to_csv("ashford.csv", index=False)

units = load_readmission("Birchwood", 4000)
units["creatinine"] *= 88.4  # micromol per litre in place of mg per decilitre
units.to_csv("birchwood.csv", index=False)

older = load_readmission("Castleton", 4000)
returns = np.random.default_rng(0).random(len(older)) < np.clip((older["age"] - 75) / 20, 0, 0.7)
older["readmitted"] |= returns
older.to_csv("castleton.csv", index=False)

assert main(["publish", "ashford.csv", "--target", "readmitted", "--out", "study.json"]) == 0
print("\n--- Birchwood")
main(["check", "study.json", "birchwood.csv"])
print("\n--- Castleton")
assert main(["replicate", "study.json", "castleton.csv", "--opened", "ashford.model.json"]) == 1
