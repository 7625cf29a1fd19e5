"""Fits on files: in memory if the rows fit there, otherwise piece by piece."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from replearn import __version__
from replearn.codes.canonical import canonical_json
from replearn.codes.encoding import Encoding, NumberColumn, Seen, coded_differently
from replearn.errors import ReplearnError
from replearn.estimators.base import ReplicableClassifier
from replearn.files.atomic import scratch_folder
from replearn.files.checkpoint import Checkpoint
from replearn.plans.sizes import BatchPlan
from replearn.progress import no_progress, progress
from replearn.sources import open_source, read_within
from replearn.sources.common import Piece, total_seen
from replearn.sources.labels import Labels
from replearn.sources.matrices import ColumnRows
from replearn.sources.shuffling import ShuffledSource
from replearn.sources.svmlight_files import SvmlightSource
from replearn.stages.batches import BatchKernel, BatchSums, LabelRuns, SignedRows, Total, add_blocks
from replearn.stages.pieces import BatchStream
from replearn.stages.signal import Signal, SpacedRows
from replearn.stages.weights import parted, whole_weights, with_weights
from replearn.types import BlockMap, Signs

if TYPE_CHECKING:
    from replearn.sources import Source, Watch

Classifier = TypeVar("Classifier", bound=ReplicableClassifier)

#: Rows of more bytes than this are not held in memory.
MEMORY = 1 << 30


def fit_file(
    estimator: Classifier,
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    weights: str | None = None,
    n_features: int | None = None,
    memory: int = MEMORY,
    scratch: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = 30.0,
    allow_unknown: bool = False,
    watch: "Watch | None" = None,
) -> Classifier:
    """Fit an estimator on a file, or on a folder of files, of any size.

    Parameters
    ----------
    estimator : replicable classifier
        With ``shuffle=False`` the rows are taken in the order of the file, which must be random;
        with ``shuffle=True`` they are put in the order in which ``fit`` would take them.
    path : path
        CSV, Parquet, npz or svmlight; see ``docs/data.md``.
    target : str, optional
        Label column.
    columns : sequence of str, optional
        Feature columns; default all but target and weights, or those of the estimator's encoding.
    weights : str, optional
        Column with the weights of the rows, as ``sample_weight`` of ``fit``; it is no feature.
    n_features : int, optional
        For svmlight files, whose number of columns all labs must agree on.
    memory : int, default=2**30
        Rows of more bytes than this are not held in memory: they are shuffled by way of a scratch
        folder, and then read piece by piece.
    scratch : path, optional
        Folder for that; default the system's folder for temporary files.
    checkpoint : path, optional
        Folder for the state of the fit, and for the shuffled rows. The same call after a crash goes
        on from there. Call `replearn.files.checkpoint.clear` when the model has been saved.
    every : float, default=30.0
        Seconds between two states.
    allow_unknown : bool, default=False
        Fit although columns are coded differently than the protocol says: more than 5 % of their
        values are unknown to it, or all are missing.
    watch : callable, optional
        Called with the share of the rows that have been read, in each pass over them. With
        ``estimator.verbose`` the progress is shown, too.

    Returns
    -------
    estimator
        Fitted: the same model, to the bit, as ``fit`` on all rows in memory.

    Notes
    -----
    Out of core, the memory does not depend on the number of rows: the batches of the reader, those
    of the shuffle (see `ShuffledSource`), two batches of the plan, and the sums. Only the logistic,
    the SVM and the SGD classifier learn out of core; the others need all rows in memory. For the
    logistic classifier the order of the rows does not matter: nothing is shuffled, and the files
    are read once for each of its steps.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9).fit(X, y)
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.npz")
    ...     np.savez(path, X=X, y=y)
    ...     again = rl.fit_file(rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9), path)
    >>> again.fingerprint_ == fitted.fingerprint_
    True
    """
    show, name = partial(_pass_watch, estimator.verbose, watch), Path(path).name
    if weights is not None and estimator._no_weights is not None:
        raise ReplearnError(f"{type(estimator).__name__} takes no weights: {estimator._no_weights}")
    source, labels = training_source(estimator, path, target, columns, n_features, weights)
    stays = source.in_memory_only or estimator.asks in ("counts", "rows")
    if checkpoint is not None and estimator.asks == "sums":
        raise ReplearnError(
            "a checkpoint keeps shuffled rows and sums of batches, got "
            f"{type(estimator).__name__}, which shuffles nothing and only reads the files. Leave "
            "it out; after a crash the pass starts again, or take pieces with partial_fit."
        )
    if checkpoint is not None and (stays or estimator.asks != "batches"):
        raise ReplearnError(
            f"a checkpoint needs rows that can be read in pieces and Algorithm 1 or 2, got "
            f"{source.place} and {type(estimator).__name__}. Leave it out, or write the rows as "
            "Parquet or CSV."
        )
    shuffles = estimator.asks == "batches" and estimator.shuffle
    limit = None if stays else memory if shuffles and checkpoint is None else 0
    with show(f"reading {name}") as advance:
        whole = None if limit == 0 else read_within(source, limit, advance, labels.take)
    look = partial(check_seen, estimator, source.place, source.encoding, allow_unknown)
    if whole is not None:
        assert whole.y is not None  # the source is labelled
        look(whole.seen)
        labels.require_both()
        rows = estimator.in_memory(whole.X, labels.targets_of(whole.y))
        return estimator.fit_sample(rows, source.n_features, labels.classes, source.names)
    with _state_and_scratch(estimator, source, target, scratch, checkpoint, every) as (
        state,
        folder,
    ):
        ordered: Source | ShuffledSource = source
        if shuffles:
            ordered = shuffled = ShuffledSource(source, *estimator.order_coins(), folder, every)
            with show(f"shuffling {name}") as advance:
                shuffled.scatter(advance)
        n_columns, names = source.n_features, source.names
        if weights is not None:  # the last column
            n_columns, names = n_columns - 1, None if names is None else names[:-1]
        _learn_labels(labels, ordered, estimator.asks == "sums")

        def learned() -> Classifier:
            sample = FileSample(ordered, labels, not shuffles, state, show, look, weights)
            return estimator.fit_sample(sample, n_columns, labels.classes, names)

        try:
            return learned()
        except _MoreClasses:  # than the first piece has: rare, so nobody reads all labels first
            for piece in ordered.pieces():
                assert piece.y is not None  # the source is labelled
                labels.take(piece.y)
            return learned()


class _MoreClasses(Exception):
    """A label came that the fit did not know of."""


def check_seen(
    estimator: ReplicableClassifier,
    place: str,
    encoding: Encoding | None,
    allow_unknown: bool,
    seen: Seen | None,
) -> None:
    """Keep what was missing or unknown; refuse columns that are coded differently."""
    if seen is not None:
        known = estimator.agreed.encoding
        n_columns = len(seen.missing) if known is None else len(known.columns)
        estimator.seen_ = Seen(  # without the column of weights, which is read as one more
            seen.n_rows, seen.missing[:n_columns], seen.unknown[:n_columns]
        )
        refuse_other_codes(place, encoding, allow_unknown, seen)


def refuse_other_codes(
    place: str, encoding: Encoding | None, allow_unknown: bool, seen: Seen | None
) -> None:
    """Refuse rows that are coded differently than a protocol says, unless that is allowed."""
    trouble = coded_differently(encoding, seen)
    if trouble and not allow_unknown:
        raise ReplearnError(
            f"{place}: {trouble}. If they are meant to be unknown, pass allow_unknown (on "
            "the command line --allow-unknown)."
        )


def training_source(
    estimator: ReplicableClassifier,
    path: str | os.PathLike[str],
    target: str | None = None,
    columns: Sequence[str] | None = None,
    n_features: int | None = None,
    weights: str | None = None,
) -> "tuple[Source, Labels]":
    """The rows of files as an estimator takes them, and what turns their labels into signs.

    All that reads training rows from files comes here, so that they are read in one way: encoded by
    the protocol, if there is one. Parameters as for `fit_file`; with ``weights``, these are the
    last column of X.
    """
    estimator.check_parameters()  # before a long look at the rows
    if target is None and not open_source(path, raw=True).labelled:
        raise ReplearnError(  # before something else is said about the columns
            f"{os.fspath(path)}: labels are needed, got none. Name the label column (target, on "
            "the command line --target)."
        )
    if n_features is not None and not isinstance(open_source(path, raw=True), SvmlightSource):
        raise ReplearnError(
            f"n_features (on the command line --features) is for svmlight files, got {n_features} "
            f"for {os.fspath(path)}, which has its own columns. Leave it out."
        )
    encoding = estimator.agreed.encoding
    if weights is not None:
        columns, encoding = _and_weights(path, target, columns, encoding, weights)
        n_features = None
    source = open_source(path, target, columns, encoding, n_features)
    return source, estimator.labels(f"the label column of {source.place}", from_text=True)


def wanted_columns(
    place: str,
    found: Sequence[str],
    target: str | None,
    columns: Sequence[str] | None,
    encoding: Encoding | None,
) -> list[str]:
    """Feature columns of a dataframe: as asked for, or of the encoding, or all but the target."""
    if columns is None and encoding is not None:
        columns = [column.name for column in encoding.columns]
    wanted = [name for name in found if name != target] if columns is None else list(columns)
    for name in (*wanted, *(() if target is None else (target,))):
        if name not in found:
            raise ReplearnError(
                f"{place} has no column {name!r}; its columns are "
                f"{', '.join(map(repr, found[:8]))}. Name one of these."
            )
    return wanted


def training_rows(
    estimator: ReplicableClassifier,
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    n_features: int | None = None,
    allow_unknown: bool = False,
    watch: "Watch | None" = None,
) -> tuple[Any, NDArray[Any]]:
    """Rows and labels of a file in memory, as `fit_file` reads them.

    The rows are encoded already: fit them with an estimator that has no encoding. The labels are
    spelled as the protocol spells them.
    """
    source, labels = training_source(estimator, path, target, columns, n_features)
    whole = read_within(source, None, watch, labels.take)
    assert whole is not None  # there is no limit
    assert whole.y is not None  # the source is labelled
    refuse_other_codes(source.place, source.encoding, allow_unknown, whole.seen)
    labels.require_both()
    return whole.X, labels.classes[labels.class_numbers(whole.y)]


@contextmanager
def _pass_watch(verbose: int, watch: "Watch | None", label: str) -> "Iterator[Watch]":
    """What is told the share of a pass over the rows: it shows it, and tells the watch."""
    with progress(label, 1.0) if verbose else nullcontext(no_progress) as advance:

        def tell(share: float) -> None:
            advance(share)
            if watch is not None:
                watch(share)

        yield tell


class FileSample:
    """Rows in files, in canonical order: a `Sample` that reads them anew for each sum.

    With ``check_order`` labels that look sorted are refused. ``show`` takes the name of a pass over
    the rows, and gives a context with what is told the share. ``on_seen`` is told what was missing
    or unknown in the rows, after the first pass over them (without those that a killed process had
    taken). ``weights`` is the name of the last column, if that holds weights.
    """

    def __init__(
        self,
        source: Any,
        labels: Labels,
        check_order: bool,
        state: Checkpoint | None,
        show: "Callable[[str], AbstractContextManager[Watch]]",
        on_seen: Callable[[Seen | None], None],
        weights: str | None = None,
    ) -> None:
        self._weights = weights
        self._source, self._labels, self._check_order = source, labels, check_order
        self._n_classes = labels.classes.size
        self._state, self._show = state, show
        self._on_seen: Callable[[Seen | None], None] | None = on_seen
        self._seen: Seen | None = None
        self._n_rows: int | None = source.n_rows
        self._n_steps = 0
        self._spaced, self._keeps_all = SpacedRows(self._n_rows), False

    def signal(self) -> Signal | None:
        """Whether the rows hold any signal, by some of them; None if these are too few."""
        if not self._keeps_all:  # a killed process had taken some rows: look at all again
            self._spaced = SpacedRows(self._n_rows)
            for piece in self._source.pieces():
                self._spaced.take(piece.X, self._labels.targets(piece.y))
        return self._spaced.signal()

    @property
    def n_rows(self) -> int:
        """Number of rows, which may have to be counted."""
        if self._n_rows is None:
            self._n_rows = sum(batch.num_rows for batch in self._source.batches())
        return self._n_rows

    def sums(self, solve: BatchKernel, plan: BatchPlan, run: BlockMap = map) -> BatchSums:
        """Sums of the vectors of all batches."""
        stream = BatchStream(solve, plan)
        save = self._resumed(stream, plan)
        keeps = self._on_seen is not None and stream.n_added == 0
        self._keeps_all = self._keeps_all or keeps
        for X, signs in self._rows(partial(self._source.pieces, stream.n_added)):
            if keeps:
                self._spaced.take(X, signs)
            stream.take(X, signs, run)
            save(False)
        save(True)
        self._note(stream.labels)
        if self._check_order and self.n_rows >= 2 * plan.batch_size:
            stream.labels.refuse_sorted()
        return stream.total()

    def add_up(self, terms: Callable[[Any, Signs], Total], run: BlockMap = map) -> Total:
        """Sum of ``terms(X, signs)`` over pieces of the files."""
        labels, total = LabelRuns(), None
        first_pass = self._on_seen is not None
        self._keeps_all = True
        # a column of weights is to be taken out of rows, so these must be written
        read = self._source.row_pieces if self._weights is None else self._source.pieces
        for X, targets in self._rows(read):
            labels = labels.then(LabelRuns.of(parted(targets)[0]))
            if first_pass:
                self._spaced.take(X, targets)
            part = add_blocks(terms, X, targets, run)
            total = part if total is None else total + part  # one by one: memory stays flat
        self._note(labels)
        assert total is not None  # files without rows are refused before
        return total

    def _note(self, labels: LabelRuns) -> None:
        """Note what a pass over all rows has seen."""
        self._n_rows = labels.n_rows
        if self._on_seen is not None:  # what later passes see is the same
            self._on_seen(self._seen)
            self._on_seen = None
        if labels.n_positive in (0, labels.n_rows):
            self._labels.require_both()

    def _rows(self, read: Callable[..., Iterator[Piece]]) -> Iterator[SignedRows]:
        """Rows as ``read`` gives them; the first pass counts what was missing or unknown."""
        with self._show("fitting") as advance:
            for piece in read(watch=advance):
                yield self._signed(piece)
                # rows that are written where they are asked for are counted there, too
                seen = getattr(piece.X, "seen", piece.seen)
                if self._on_seen is not None:
                    self._seen = total_seen((self._seen, seen))

    def _signed(self, piece: Piece) -> SignedRows:
        assert piece.y is not None  # the source is labelled
        X = piece.X
        try:
            targets = self._labels.targets(piece.y)
        except ReplearnError:
            if isinstance(X, ColumnRows):
                X.check()  # a bad number is named first, as where rows are written at once
            raise
        if self._labels.classes.size != self._n_classes:
            raise _MoreClasses
        if self._weights is not None:
            X, targets = _weighted(X, targets, self._weights, piece.first_row)
        return X, targets

    def _resumed(self, stream: BatchStream, plan: BatchPlan) -> Callable[[bool], None]:
        """Bring the stream to where a killed process was; what saves it, at once or in time."""
        state = self._state
        if state is None:
            return lambda _: None
        self._n_steps += 1  # in the same order in every run of one job
        step = f"sums-{self._n_steps}"
        if plan.n_outputs > 1:  # a fit that took the rows for two classes may have left another
            step += f"-of-{plan.n_outputs}"
        about = {"batch_size": plan.batch_size, "margin": repr(plan.guarantee.margin)}
        saved = state.load(step, about, like=stream.arrays())
        if saved is not None:
            stream.restore(saved)
        return lambda now: state.save(step, about, stream.arrays, now)


def _and_weights(
    path: str | os.PathLike[str],
    target: str | None,
    columns: Sequence[str] | None,
    encoding: Encoding | None,
    weights: str,
) -> tuple[Sequence[str] | None, Encoding | None]:
    """What to read of a file, so that the weights are the last column."""
    names = open_source(path, target).names if columns is None and encoding is None else columns
    if names is None and encoding is None:
        raise ReplearnError(
            f"{os.fspath(path)} must name its columns, so that one of them holds weights, got "
            "none. Write the rows as Parquet or CSV."
        )
    features = names if encoding is None else [column.name for column in encoding.columns]
    assert features is not None
    if weights == target or (weights in features and (columns is not None or encoding is not None)):
        raise ReplearnError(
            f"{os.fspath(path)}: column {weights!r} is a label or a feature, so it cannot hold the "
            "weights too. Name another one."
        )
    if encoding is not None:
        return None, Encoding((*encoding.columns, NumberColumn(weights, "0", "1")))
    return [*(name for name in features if name != weights), weights], None


def _weighted(
    X: Any, targets: NDArray[Any], place: str, first_row: int
) -> tuple[Any, NDArray[Any]]:
    """Rows without their last column, and targets with the weights that it holds."""
    last, rest = X[:, -1], X[:, :-1]
    if sp.issparse(X):
        last = last.toarray().ravel()
    grains = whole_weights(last, targets.size, f"the column {place!r}", first_row)
    return (rest if sp.issparse(X) else np.ascontiguousarray(rest)), with_weights(targets, grains)


def _learn_labels(labels: Labels, source: Any, all_of_them: bool) -> None:
    """Read until two labels are known, nearly always in the first piece, or to the end."""
    if labels.complete:
        return
    pieces = source.pieces()
    for piece in pieces:
        labels.take(piece.y)
        if labels.complete and not all_of_them:
            break
    pieces.close()


@contextmanager
def _state_and_scratch(
    estimator: ReplicableClassifier,
    source: "Source",
    target: str | None,
    scratch: str | os.PathLike[str] | None,
    checkpoint: str | os.PathLike[str] | None,
    every: float,
) -> Iterator[tuple[Checkpoint | None, Path]]:
    """Where the state of the fit and the shuffled rows are kept."""
    if checkpoint is None:
        with scratch_folder(scratch) as folder:
            yield None, folder
        return
    if scratch is not None:
        raise ReplearnError(
            f"a checkpoint keeps the shuffled rows in its own folder, got the scratch folder "
            f"{scratch} too. Leave one out."
        )
    state = Checkpoint(checkpoint, _job(estimator, source, target), every)
    try:
        rows = state.folder / "rows"
        rows.mkdir(exist_ok=True)
        yield state, rows
    finally:
        state.close()


def _job(estimator: ReplicableClassifier, source: "Source", target: str | None) -> dict[str, Any]:
    """What a fit depends on, as text: a checkpoint of anything else is refused."""
    about_run = ("n_jobs", "verbose")
    parameters = estimator.get_params(deep=False)
    return {
        "estimator": type(estimator).__name__,
        **{name: _text(value) for name, value in parameters.items() if name not in about_run},
        "features": list(source.names or ()),
        "files": source.identity(),
        "n_features": source.n_features,
        "replearn": __version__,
        "target": target,
    }


def _text(value: Any) -> str:
    return canonical_json(value.content()).decode() if hasattr(value, "content") else repr(value)
