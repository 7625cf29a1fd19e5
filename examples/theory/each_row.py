# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn"]
# ///
"""Run each line of Table 1: two labs, one seed, different rows; and the rows with a sketch."""

import replearn as rl

found = rl.table1(n_features=5, margin=0.3, max_error=0.1, max_disagreement=0.2, measure=5)
print(found.facts().text(78, details=True))
assert len(found.counted) == 8
assert all(one.error < 0.1 for one in found.counted.values())
