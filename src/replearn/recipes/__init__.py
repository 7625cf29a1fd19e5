"""One file per algorithm, and `replearn.recipes.table`, the one table of them."""
