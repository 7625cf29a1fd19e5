"""Studies: an original publishes one, replications read it."""
