"""A point to whole numbers and back: coins, cells, sketches, projections, models."""
