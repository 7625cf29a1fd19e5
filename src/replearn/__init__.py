"""replearn: replicable learning of large-margin halfspaces.

Two labs draw different samples of one population, share a published seed, and with high
probability obtain exactly the same classifier.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from replearn import datasets as datasets
    from replearn.agreement import pairs_needed as pairs_needed
    from replearn.audit import audit as audit
    from replearn.certificate import Certificate as Certificate
    from replearn.commitments import commit as commit
    from replearn.commitments import reveal as reveal
    from replearn.errors import InvalidFile as InvalidFile
    from replearn.errors import NotEnoughSamples as NotEnoughSamples
    from replearn.errors import ReplearnError as ReplearnError
    from replearn.errors import ReplicabilityWarning as ReplicabilityWarning
    from replearn.estimators import ReplicableBoostingClassifier as ReplicableBoostingClassifier
    from replearn.estimators import ReplicableDPClassifier as ReplicableDPClassifier
    from replearn.estimators import ReplicableNetClassifier as ReplicableNetClassifier
    from replearn.estimators import ReplicableSGDClassifier as ReplicableSGDClassifier
    from replearn.estimators import ReplicableSVMClassifier as ReplicableSVMClassifier
    from replearn.exports import to_csv as to_csv
    from replearn.exports import to_onnx as to_onnx
    from replearn.exports import to_sklearn as to_sklearn
    from replearn.exports import to_sql as to_sql
    from replearn.filefit import fit_file as fit_file
    from replearn.findings import AuditResult as AuditResult
    from replearn.model import Comparison as Comparison
    from replearn.model import Model as Model
    from replearn.model import compare as compare
    from replearn.modelfile import load as load
    from replearn.modelfile import save as save
    from replearn.pilot import PilotPlan as PilotPlan
    from replearn.pilot import plan_from_pilot as plan_from_pilot
    from replearn.plan import Plan as Plan
    from replearn.planning import plan as plan
    from replearn.planning import table1 as table1
    from replearn.protocol import Protocol as Protocol
    from replearn.scaling import ReplicableScaler as ReplicableScaler
    from replearn.scaling import check_pipeline as check_pipeline
    from replearn.shuffled_files import shuffle_file as shuffle_file
    from replearn.stages.means import replicable_mean as replicable_mean
    from replearn.stages.selection import correlated_choice as correlated_choice
    from replearn.stages.selection import first_below as first_below

# Imported on first use (PEP 562): `import replearn` is instant, and the command line does not
# load scikit-learn before it has parsed its arguments.
_HOME = {
    "AuditResult": "findings",
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
    "ReplicableBoostingClassifier": "estimators",
    "ReplicableDPClassifier": "estimators",
    "ReplicableNetClassifier": "estimators",
    "ReplicableSGDClassifier": "estimators",
    "ReplicableSVMClassifier": "estimators",
    "ReplicableScaler": "scaling",
    "audit": "audit",
    "check_pipeline": "scaling",
    "commit": "commitments",
    "compare": "model",
    "correlated_choice": "stages.selection",
    "datasets": "datasets",
    "first_below": "stages.selection",
    "fit_file": "filefit",
    "load": "modelfile",
    "pairs_needed": "agreement",
    "plan": "planning",
    "plan_from_pilot": "pilot",
    "reveal": "commitments",
    "replicable_mean": "stages.means",
    "save": "modelfile",
    "shuffle_file": "shuffled_files",
    "table1": "planning",
    "to_csv": "exports",
    "to_onnx": "exports",
    "to_sklearn": "exports",
    "to_sql": "exports",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'replearn' has no attribute {name!r}")
    module = import_module(f"replearn.{_HOME[name]}")
    return module if name == "datasets" else getattr(module, name)


def __dir__() -> list[str]:
    return __all__


class _Package(ModuleType):
    """Keeps two functions in front of the modules of the same names.

    The import system binds ``replearn.plan`` and ``replearn.audit`` to those modules as soon as
    they are loaded; `rl.plan(...)` and `rl.audit(...)` must work before and after that. ``from
    replearn.plan import Plan`` works as ever.
    """

    @property
    def plan(self) -> Any:
        return __getattr__("plan")

    @plan.setter
    def plan(self, module: ModuleType) -> None:
        """Leave the function where it is."""

    @property
    def audit(self) -> Any:
        return __getattr__("audit")

    @audit.setter
    def audit(self, module: ModuleType) -> None:
        """Leave the function where it is."""


import_module(__name__).__class__ = _Package
