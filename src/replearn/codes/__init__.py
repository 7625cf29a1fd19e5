"""Directions to integers and back: coins, cells, lattices, projections, spaces, models."""
