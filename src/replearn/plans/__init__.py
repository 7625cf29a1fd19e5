"""Sizes of each algorithm, in each mode. The constants of the theory are here and in cells.py.

An algorithm has one function, from a guarantee, the number of inputs (features, and one more if an
intercept is fitted), a mode, the `Sizes` that the user fixes by hand and, in paper mode, constants
(1 unless given) to its plan.
"""
