"""scikit-learn shells: they check what users pass, and call the rooms below."""
