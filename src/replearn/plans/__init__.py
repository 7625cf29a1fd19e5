"""Sizes of each algorithm, in each mode. The constants of the theory are here and in cells.py."""
