"""What counted disagreements say about a claimed share of them."""

CONFIDENCE = 0.95


def limits(n_different: int, n_pairs: int, tail: float) -> tuple[float, float]:
    """Clopper-Pearson: shares at which so few, or so many, are as unlikely as ``tail``."""
    from scipy.special import betaincinv

    n_same = n_pairs - n_different
    low = float(betaincinv(n_different, n_same + 1, tail)) if n_different else 0.0
    return low, float(betaincinv(n_different + 1, n_same, 1 - tail)) if n_same else 1.0


def interval_of(n_different: int, n_pairs: int) -> tuple[float, float]:
    """Two-sided, 95%."""
    return limits(n_different, n_pairs, (1 - CONFIDENCE) / 2)


def verdict_of(n_different: int, n_pairs: int, claim: float) -> str:
    """Word for a claim: "within" if it is shown, "exceeds" if refuted, else "undecided"."""
    low, high = limits(n_different, n_pairs, 1 - CONFIDENCE)
    if high <= claim:
        return "within"
    return "exceeds" if low > claim else "undecided"
