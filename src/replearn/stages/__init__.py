"""The stages that every recipe is built from: batches, projection, rounding, code space."""
