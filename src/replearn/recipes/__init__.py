"""One file per algorithm, and the one table of them."""
