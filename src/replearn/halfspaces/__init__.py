"""The paper's Table 1: one file for each algorithm, and `replearn.halfspaces.recipes`, the table.

This room has no door, because each algorithm is a file to be read by itself, and because compiled
loops come with some of them: whoever needs one imports that one.
"""
