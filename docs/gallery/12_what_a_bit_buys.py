"""
Hints: what a bit buys
======================

The first site may publish a few bits about where its estimate lies in the grid. Each bit lets the
cells be narrower, and the price of agreement falls. How much is a bit worth?
"""

# %%
# The price of rounding, in nats of log-loss times the rows of a site, for two sites that shall
# differ in at most 6 % of studies. No data are needed: these are the library's formulas.

import matplotlib.pyplot as plt

from replearn.plans.cell_prices import price

BITS = range(9)
prices = {q: [price(q, bits, 0.06) for bits in BITS] for q in (2, 5, 10)}
for q, values in prices.items():
    print(f"{q:2} numbers: {values[0]:8.0f} without, {values[4]:7.2f} with 4 bits")

figure, axes = plt.subplots()
for q, values in prices.items():
    axes.plot(BITS, values, label=f"{q} coded numbers")
axes.set(yscale="log", xlabel="hint bits", ylabel="price, nats times rows")
axes.set_title("The first bits are worth most")
axes.legend(fontsize="small")

# %%
# So a number of bits is worth a number of rows: with four bits, this many times fewer rows do.

figure, axes = plt.subplots(figsize=(7, 3.2))
for q, values in prices.items():
    axes.plot(BITS, [values[0] / value for value in values], label=f"{q} coded numbers")
axes.set(yscale="log", xlabel="hint bits", ylabel="times fewer rows")
axes.set_title("Bits instead of rows")
axes.legend(fontsize="small")

# %%
# Hints are not free: they tell that much about one site's sample, the order of the sites begins to
# matter, and the notion is weaker than the paper's. A plan therefore shows what 0, 2, 4 and 8 bits
# would give, and takes none unless you ask.
