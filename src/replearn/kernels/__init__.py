"""Compiled loops of the paper's batch solvers and net searches; nothing of a study imports them."""
