"""replearn: replicable learning of large-margin halfspaces.

Two labs draw different samples of one population, share a published seed, and with high
probability obtain exactly the same classifier.

The public names are listed in ``__init__.pyi`` and imported on first use: ``import replearn`` is
instant, and the command line does not load scikit-learn before it has parsed its arguments.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
