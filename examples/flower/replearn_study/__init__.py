"""Both halves of the app are in `replearn.flower`."""
