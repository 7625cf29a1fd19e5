"""Measurements, each a script; a package, because Arrow 17 installs one of the same name."""
