"""Many sites, one model: exact sums of their rows, added up."""
