"""Hostile input, by the room of the library that it is thrown at.

`judging` says what became of a case, `garbling` makes hostile input of valid input, `samples` has
the rows; the other modules know what is valid and what one does with it. `targets` lists all cases.

A case is addressed by the name of its target and a number, so every finding can be had again:
``python benchmarks/fuzz.py --only NAME --first NUMBER --cases 1``.
"""
