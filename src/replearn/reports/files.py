"""Files of replearn: any of them, by what its header says."""

from typing import Any

from replearn.documents import Document, FilePath, document_of
from replearn.errors import ReplearnError, short


def file_classes() -> tuple[type[Document], ...]:
    """All kinds of files that replearn writes."""
    from replearn.codes import Model
    from replearn.reports.policy import Policy
    from replearn.study import LabColumns, LabSums, Opening, Share, State, Study

    return Study, Model, LabSums, Share, LabColumns, State, Opening, Policy


def load(path: FilePath) -> Any:
    """Read a file of replearn: a study, a model, or what else its header says.

    Parameters
    ----------
    path : path
        A file that replearn wrote.

    Returns
    -------
    thing : Study, Model, State, LabSums or what else the header says
        Checked, its fingerprint included.

    Raises
    ------
    InvalidFile
        If it is none of ours, was altered, or is torn.
    OSError
        If it cannot be opened.

    See Also
    --------
    save : writes a file.

    Notes
    -----
    Files are JSON [Bray17] without pickle. Size, depth, keys and types are checked before anything
    is built.

    References
    ----------
    .. [Bray17] Bray. The JavaScript Object Notation (JSON) data interchange format. RFC 8259, 2017.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 2000)
    >>> y = table.pop("readmitted")
    >>> model = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "ashford.model.json")
    >>> rl.save(model, path)
    >>> rl.load(path).fingerprint == model.fingerprint_
    True
    """
    return document_of(path, file_classes())


def save(thing: Any, path: FilePath, private: bool = False) -> None:
    """Write a study, a model or a fitted estimator's model, whole or not at all.

    Parameters
    ----------
    thing : Study, Model, or fitted estimator of replearn
        Of an estimator its model is written; ``estimator.study_.save`` writes the study.
    path : path
        The file to write.
    private : bool, default=False
        Only the owner may read it.

    See Also
    --------
    load : reads the file.

    Notes
    -----
    The file is there as a whole or not at all, and its bytes are canonical [RFC8785]: equal
    models give equal files but for their provenance.

    References
    ----------
    .. [RFC8785] Rundgren, Jordan and Erdtman. JSON canonicalization scheme (JCS). RFC 8785, 2020.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 2000)
    >>> y = table.pop("readmitted")
    >>> model = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "study.json")
    >>> rl.save(model.study_, path)
    >>> rl.load(path).design.target
    'readmitted'
    """
    document = getattr(thing, "model_", thing)
    if not isinstance(document, Document):
        raise ReplearnError(
            f"save must get a study, a model or a fitted estimator, got {short(thing)}."
        )
    document.save(path, private)


def load_model(path: FilePath) -> Any:
    """Read a model of any kind."""
    from replearn.codes import Model
    from replearn.glm import GlmModel  # noqa: F401  # one of the kinds that Model tells apart

    return Model.load(path)
