"""Labs on Flower."""
