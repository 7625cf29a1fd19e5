"""Arithmetic that gives the same bits everywhere: whole numbers below 2^53, and IEEE operations."""
