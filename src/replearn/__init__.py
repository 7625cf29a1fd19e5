"""replearn: replicable learning of large-margin halfspaces.

Two labs draw different samples of one population, share a published seed, and with high
probability obtain exactly the same classifier.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from replearn import datasets as datasets
    from replearn.certificate import Certificate as Certificate
    from replearn.errors import InvalidFile as InvalidFile
    from replearn.errors import NotEnoughSamples as NotEnoughSamples
    from replearn.errors import ReplearnError as ReplearnError
    from replearn.errors import ReplicabilityWarning as ReplicabilityWarning
    from replearn.estimators import ReplicableDPClassifier as ReplicableDPClassifier
    from replearn.estimators import ReplicableNetClassifier as ReplicableNetClassifier
    from replearn.estimators import ReplicableSGDClassifier as ReplicableSGDClassifier
    from replearn.estimators import ReplicableSVMClassifier as ReplicableSVMClassifier
    from replearn.model import Comparison as Comparison
    from replearn.model import Model as Model
    from replearn.model import compare as compare
    from replearn.modelfile import load as load
    from replearn.modelfile import save as save
    from replearn.pilot import PilotPlan as PilotPlan
    from replearn.pilot import plan_from_pilot as plan_from_pilot
    from replearn.plan import Plan as Plan
    from replearn.protocol import Protocol as Protocol
    from replearn.stages.selection import correlated_choice as correlated_choice
    from replearn.stages.selection import first_below as first_below

# Imported on first use (PEP 562): `import replearn` is instant, and the command line does not
# load scikit-learn before it has parsed its arguments.
_HOME = {
    "Certificate": "certificate",
    "Comparison": "model",
    "InvalidFile": "errors",
    "Model": "model",
    "NotEnoughSamples": "errors",
    "PilotPlan": "pilot",
    "Plan": "plan",
    "Protocol": "protocol",
    "ReplearnError": "errors",
    "ReplicabilityWarning": "errors",
    "ReplicableDPClassifier": "estimators",
    "ReplicableNetClassifier": "estimators",
    "ReplicableSGDClassifier": "estimators",
    "ReplicableSVMClassifier": "estimators",
    "compare": "model",
    "correlated_choice": "stages.selection",
    "datasets": "datasets",
    "first_below": "stages.selection",
    "load": "modelfile",
    "plan_from_pilot": "pilot",
    "save": "modelfile",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'replearn' has no attribute {name!r}")
    module = import_module(f"replearn.{_HOME[name]}")
    return module if name == _HOME[name] else getattr(module, name)


def __dir__() -> list[str]:
    return __all__
