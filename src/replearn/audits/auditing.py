"""Audits: fit many pairs on disjoint samples, count the pairs that differ, give an interval.

Works with any scikit-learn classifier. Every pair of fits shares a seed and no row.
"""

import hashlib
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor

from replearn.audits.agreement import CONFIDENCE
from replearn.audits.findings import GIVEN_ROWS, AuditResult, Pair, Question
from replearn.audits.samples import check_table, copied_share, n_rows_of, row_digest, take
from replearn.audits.twins import (
    TestRows,
    compare_twins,
    hint_bits,
    how_compared,
    labels_as_predicted,
    planned_rows,
    published_hint,
    score_name,
    seed_names,
)
from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.errors import InvalidFile, ReplearnError, ReplicabilityWarning
from replearn.estimators.scaling import check_pipeline
from replearn.estimators.useless import without_warnings_of_worth
from replearn.files.jsonfile import read_json, write_json
from replearn.fits import clusters, spark_jobs
from replearn.progress import Advance, no_progress
from replearn.warn import warn

#: ``draw(n, rng)`` gives n fresh rows and their labels.
Draw = Callable[[int, np.random.Generator], tuple[Any, Any]]

QUESTIONS = ("both", "parts", "halves")
CHECKPOINT = "replearn-audit"
_LEAST_PART = 50  # rows: smaller parts say nothing about any method
_MOST_TEST = 2000
_MOST_IN_FIGURES = 200  # test rows whose scores are kept for the figures
_COPIES = 0.01  # share of equal rows from which samples count as overlapping
_SECONDS_PER_SAVE = 2.0


def audit(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    draw: Draw | None = None,
    n_samples: int | None = None,
    n_pairs: int = 60,
    max_disagreement: float = 0.1,
    confidence: float = CONFIDENCE,
    question: str = "both",
    test: tuple[Any, Any] | None = None,
    copies: str = "refuse",
    audit_seed: int | str = 0,
    n_jobs: int | None = None,
    client: Any = None,
    checkpoint: str | Path | None = None,
    advance: Advance = no_progress,
) -> AuditResult:
    """Measure how often two labs get exactly the same model.

    Parameters
    ----------
    estimator : scikit-learn classifier or Pipeline
        Cloned for each fit, never changed. Its ``shared_seed`` (or else its ``random_state``)
        is the published seed; fresh seeds are put in the same place, in every step that has one.
    X, y : rows and labels of one fixed data set
        Answers two questions apart: *parts*, ``2 * n_pairs`` disjoint parts, so the pairs are
        independent but the samples small; and *halves*, cut in ``n_pairs`` random ways, each under
        a fresh seed: full size, but conditional on these rows. The verdict is that of the halves.
        Samples are never larger than ``n_samples``.
    draw : callable, optional
        Instead of ``X, y``: ``draw(n, rng)`` gives n fresh rows of the population and labels.
    n_samples : int, optional
        With ``draw``: rows of each sample. With ``X, y``: rows per site that the promise is about;
        default those that the estimator's protocol plans, if it has one. If the data hold two such
        samples, they are audited at that size. If not, the disagreement is extrapolated, and
        nothing that is seen at a smaller size refutes the promise.
    n_pairs : int, default=60
        59 clean pairs show a disagreement of at most 5 % at 95 % (`pairs_needed`).
    max_disagreement : float, default=0.1
        The claim that the verdict is about.
    confidence : float, default=0.95
        Of every interval and bound.
    question : {"both", "parts", "halves"}, default="both"
        For a fixed data set, what to ask.
    test : (X, y), optional
        Rows for test error and churn; default: up to 2,000 rows set aside, or drawn.
    copies : {"refuse", "allow"}, default="refuse"
        Samples that share more than 1 % of their rows are refused (a fixed data set with that
        many equal rows: a warning). "allow" says that different subjects may have equal rows.
    audit_seed : int or str, default=0
        Decides the split and the fresh seeds, so that an audit can be repeated.
    n_jobs : int or None, default=None
        Threads, one pair each. Results do not depend on it.
    client : distributed.Client or SparkSession, optional
        Instead of threads: the pairs run on this Dask cluster, to whose workers the rows are sent
        once, or on Spark. Results do not depend on it.
    checkpoint : path, optional
        JSON file with the pairs done so far; an audit that was stopped goes on from it.
    advance : callable, optional
        Told the number of pairs that are done.

    Returns
    -------
    AuditResult
        ``disagreement``, ``interval``, ``verdict`` ("within", "exceeds" or "undecided"), and
        ``questions`` with everything else.

    Notes
    -----
    Parts, and samples that are drawn, are independent, so the Clopper-Pearson interval is exact.
    For halves it is exact given the rows: each pair has its own random cut and its own seed, so
    pairs are independent given the rows, also for methods without a seed or with one that
    changes nothing. Other rows may have another rate, of which this is an unbiased estimate.
    "within" and "exceeds" are one-sided statements, each wrong with probability at most
    ``1 - confidence``. Tested in tests/theory/test_audit.py.

    Examples
    --------
    >>> import replearn as rl
    >>> def draw(n, rng):
    ...     return rl.datasets.make_margin(n, 5, margin=0.3, random_state=rng)
    >>> classifier = rl.ReplicableSVMClassifier(margin=0.3)
    >>> result = rl.audit(classifier, draw=draw, n_samples=20_000, n_pairs=10)
    >>> result.main.fresh.n_pairs, 0 <= result.disagreement <= 1
    (10, True)
    """
    _check_options(n_pairs, question, copies, max_disagreement, confidence)
    if is_regressor(estimator):
        raise ReplearnError(
            f"an audit is for classifiers, got {type(estimator).__name__}. Compare fingerprints of "
            "fits on halves of the rows: its sums are exact."
        )
    names = seed_names(estimator)
    audit_seed = seed_text(audit_seed, "audit_seed")
    rounds = _Rounds(estimator, names, audit_seed)
    notes = _pipeline_notes(estimator)
    if draw is not None:
        if X is not None or y is not None or n_samples is None:
            raise ReplearnError(
                "draw must come with n_samples and without X and y, got "
                f"n_samples={n_samples!r}. Pass audit(estimator, draw=f, n_samples=m)."
            )
        planned = planned_rows(estimator)
        stage: _Drawn | _Split = _Drawn(draw, n_samples, audit_seed, copies)
        test = test if test is not None else draw(_MOST_TEST, _rng(audit_seed, "test", 0))
        asked = [("samples", n_samples, n_pairs)]
    else:
        check_table(X, y)
        planned = planned_rows(estimator) if n_samples is None else n_samples
        stage, test, asked, more = _split(X, y, n_pairs, question, test, audit_seed, planned)
        notes += more + _copy_notes(X, y, copies)
    spelled = labels_as_predicted(estimator, test[1])
    test_rows = TestRows(test[0], spelled, _rows_for_figures(test[0]))
    tasks = [(name, index) for name, _, count in asked for index in range(count)]
    key = _key(estimator, stage.digest(), asked, audit_seed, test)
    done = {} if checkpoint is None else _read_checkpoint(Path(checkpoint), key)
    notes += _hint_notes(estimator)
    pairs, first = _run(
        rounds, stage, test_rows, tasks, done, n_jobs, client, checkpoint, key, advance
    )
    return AuditResult(
        method=" ".join(str(estimator).split()),
        compared=how_compared(first),
        seed_parameter=names[0].split("__")[-1] if names else None,
        published_seed=rounds.published,
        questions=tuple(
            Question(
                name,
                n_rows,
                tuple(pair for pair in pairs if pair.question == name),
                max_disagreement,
                confidence,
                planned,
            )
            for name, n_rows, _ in asked
        ),
        n_test=n_rows_of(test[0]),
        notes=(*notes, *_signal_note(first)),
        extra={"score_name": score_name(first)},
    )


def _signal_note(fitted: Any) -> tuple[str, ...]:
    """Whether the rows hold any signal: labs also agree on noise."""
    signal, why = getattr(fitted, "signal_", None), getattr(fitted, "untested_", "")
    if signal is None and not why:
        return ()
    words = signal or f"not tested: {why}"
    return (f"signal in the rows of the first lab: {words}. Agreement on noise is worth nothing.",)


# --- where samples come from ------------------------------------------------------------------

LabelledRows = tuple[Any, Any]


@dataclass(frozen=True)
class _Drawn:
    """Fresh samples from a generator."""

    draw: Draw
    n_samples: int
    seed: str
    copies: str

    def samples(self, question: str, index: int) -> tuple[LabelledRows, LabelledRows]:
        rngs = (_rng(self.seed, "draw", 2 * index + lab) for lab in (0, 1))
        first, second = (self.draw(self.n_samples, rng) for rng in rngs)
        share = copied_share(first, second)
        if share > _COPIES and self.copies == "refuse":
            raise ReplearnError(
                f"the two samples of a pair must be disjoint, but {share:.0%} of the rows of one "
                "are in the other, too. Let draw(n, rng) draw fresh rows with its rng, not from "
                'one fixed table; if different subjects can have equal rows, pass copies="allow".'
            )
        return first, second

    def digest(self) -> str:
        few = row_digest(*self.draw(min(self.n_samples, 100), _rng(self.seed, "draw", 0)))
        return f"{few} {self.n_samples}"


def _rng(seed: str, purpose: str, row: int) -> np.random.Generator:
    """A private generator, the same whenever the audit is repeated."""
    words = SharedRandomness(seed).words(f"audit/{purpose}", 4, row=row)
    return np.random.default_rng([int(word) for word in words])


@dataclass(frozen=True)
class _Split:
    """Disjoint pieces of one data set."""

    X: Any
    y: NDArray[Any]
    order: NDArray[np.int64]
    part_rows: int
    full_rows: int
    seed: str

    def samples(self, question: str, index: int) -> tuple[LabelledRows, LabelledRows]:
        if question in GIVEN_ROWS:  # cut afresh: one cut under many seeds would be only one trial
            coins, n_rows = SharedRandomness(self.seed), self.order.size
            order = self.order[coins.sample("audit/halves", n_rows, n_rows, row=index)]
            size, start = self.full_rows, 0
        else:
            order, size, start = self.order, self.part_rows, 2 * index * self.part_rows
        first, second = order[start : start + size], order[start + size : start + 2 * size]
        return (take(self.X, first), self.y[first]), (take(self.X, second), self.y[second])

    def digest(self) -> str:
        return row_digest(self.X, self.y)


def _split(
    X: Any,
    y: Any,
    n_pairs: int,
    question: str,
    test: LabelledRows | None,
    seed: str,
    planned: int | None,
) -> tuple[_Split, LabelledRows, list[tuple[str, int, int]], list[str]]:
    """Set test rows aside, and decide which questions the rest can answer."""
    y = np.asarray(y)
    n_rows = n_rows_of(X)
    order = SharedRandomness(seed).permutation("audit/split", n_rows)
    n_test = 0 if test is not None else min(_MOST_TEST, n_rows // 10)
    kept = order[n_test:]
    if test is None:
        test = take(X, order[:n_test]), y[order[:n_test]]
    part_rows, half = kept.size // (2 * n_pairs), kept.size // 2
    if planned is not None:
        part_rows = min(part_rows, max(planned, _LEAST_PART))
    asked, notes = [], []
    if question in ("both", "parts"):
        if part_rows < _LEAST_PART:
            needed = math.ceil(2 * n_pairs * _LEAST_PART * n_rows / kept.size)
            reason = (
                f"{2 * n_pairs} parts of at least {_LEAST_PART} rows need {needed:,} rows, there "
                f"are {n_rows:,}"
            )
            if question == "parts":
                raise ReplearnError(f'question="parts" needs more rows: {reason}. Ask fewer pairs.')
            notes.append(f"independent small parts were left out: {reason}")
        else:
            asked.append(("parts", part_rows, n_pairs))
    if question in ("both", "halves"):
        if half < 2:
            raise ReplearnError(f"halves need at least 4 rows, got {n_rows}. Get more rows.")
        if planned is not None and half >= planned:
            asked.append(("planned", planned, n_pairs))
        else:
            asked.append(("halves", half, n_pairs))
        if planned is not None and half < planned:
            notes.append(
                f"the study plans {planned:,} rows per site; two such samples, and test rows, need "
                f"{math.ceil(2 * planned * n_rows / kept.size):,} rows, there are {n_rows:,}"
            )
    full_rows = half if planned is None else min(half, planned)
    return _Split(X, y, kept, part_rows, full_rows, seed), test, asked, notes


# --- fitting ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rounds:
    """Fits of one estimator under fresh seeds and under the published one."""

    estimator: Any
    names: tuple[str, ...]
    seed: str

    @property
    def published(self) -> str | None:
        """The seed of the estimator as it is."""
        return str(self.estimator.get_params()[self.names[0]]) if self.names else None

    def seeds(self, question: str, index: int) -> Iterator[tuple[str, Any]]:
        """Kind of seed, and its value: None leaves the estimator as it is."""
        if self.names:
            word = SharedRandomness(self.seed).words(f"audit/seeds/{question}", 1, row=index)[0]
            yield "fresh", int(word % np.uint64(1 << 31))
        if question not in GIVEN_ROWS or index == 0 or not self.names:
            yield "published", None

    def pair(
        self, seed: Any, samples: tuple[LabelledRows, LabelledRows], threads: int
    ) -> tuple[Any, Any]:
        """Fits of two labs; with hint bits the first leads, and the second takes its hint."""
        first = self.fit(seed, samples[0], threads)
        return first, self.fit(seed, samples[1], threads, published_hint(first))

    def fit(
        self, seed: Any, sample: LabelledRows, threads: int, hint: dict[str, int] | None = None
    ) -> Any:
        estimator = clone(self.estimator).set_params(**(hint or {}))
        if seed is not None:
            estimator.set_params(**dict.fromkeys(self.names, seed))  # wherever it has one
        if threads > 1:  # pairs run side by side, so fits do not
            quiet = {name: 1 for name in estimator.get_params() if name.endswith("n_jobs")}
            estimator.set_params(**quiet)
        with without_warnings_of_worth():  # a verdict of many fits says what they are worth
            return estimator.fit(*sample)


def _one(
    rounds: _Rounds,
    stage: _Drawn | _Split,
    test_rows: TestRows,
    threads: int,
    task: tuple[str, int],
) -> tuple[list[Pair], Any]:
    """All pairs of one task: its samples, under each kind of seed."""
    question, index = task
    samples = stage.samples(question, index)
    pairs, first = [], None
    for kind, seed in rounds.seeds(question, index):
        try:
            first, second = rounds.pair(seed, samples, threads)
        except ReplearnError as problem:
            raise ReplearnError(
                f"a fit of pair {index} ({question}, {len(samples[0][1]):,} rows) failed: "
                f"{problem} Fewer pairs make larger parts."
            ) from None
        used = rounds.published if seed is None else str(seed)
        facts = compare_twins(first, second, test_rows)
        pairs.append(Pair(question, index, kind, "none" if used is None else used, **facts))
    return pairs, first


def _run(
    rounds: _Rounds,
    stage: _Drawn | _Split,
    test_rows: TestRows,
    tasks: Sequence[tuple[str, int]],
    done: dict[tuple[str, int], list[Pair]],
    n_jobs: int | None,
    client: Any,
    checkpoint: str | Path | None,
    key: str,
    advance: Advance,
) -> tuple[list[Pair], Any]:
    """Run what is not done yet; pairs in a fixed order, and the first estimator of the first."""
    threads = effective_n_jobs(n_jobs) if client is None else 2  # side by side, however many
    left = [task for task in tasks if task not in done]
    fitted, saved = None, time.monotonic()
    one = partial(_one, rounds, stage, test_rows, threads)
    with warnings.catch_warnings():
        # one for every fit would hide the audit, which says the same with numbers
        warnings.simplefilter("ignore", ReplicabilityWarning)
        try:
            for task, (pairs, first) in _mapped(one, left, threads, client):
                done[task] = pairs
                if task == tasks[0]:  # whatever comes first, and wherever a checkpoint stopped
                    fitted = first
                advance(len(done))
                if checkpoint is not None and time.monotonic() > saved + _SECONDS_PER_SAVE:
                    _write_checkpoint(Path(checkpoint), key, done)
                    saved = time.monotonic()
        finally:  # a stopped audit keeps what it has
            if checkpoint is not None and left:
                _write_checkpoint(Path(checkpoint), key, done)
        if fitted is None:  # it was in the checkpoint
            _, seed = next(rounds.seeds(*tasks[0]))
            fitted = rounds.fit(seed, stage.samples(*tasks[0])[0], threads)
    return [pair for task in tasks for pair in done[task]], fitted


def _mapped(
    function: Callable[[Any], Any], tasks: Sequence[Any], threads: int, client: Any
) -> Iterable[tuple[Any, tuple[list[Pair], Any]]]:
    """Tasks and their results; on a cluster in the order in which they come."""
    if client is not None:
        spread = spark_jobs.spread if spark_jobs.is_session(client) else clusters.spread
        return ((tasks[number], result) for number, result in spread(client, function, tasks))
    if threads == 1:
        return zip(tasks, map(function, tasks), strict=True)
    # a generator: results are taken as they come, so few are in memory
    run = Parallel(n_jobs=threads, prefer="threads", return_as="generator")
    return zip(tasks, run(delayed(function)(task) for task in tasks), strict=True)


# --- checks and notes -------------------------------------------------------------------------


def _check_options(
    n_pairs: int, question: str, copies: str, max_disagreement: float, confidence: float
) -> None:
    if isinstance(n_pairs, bool) or not isinstance(n_pairs, int | np.integer) or n_pairs < 1:
        raise ReplearnError(f"n_pairs must be a positive integer, got {n_pairs!r}. 60 are good.")
    for name, value, known in (
        ("question", question, QUESTIONS),
        ("copies", copies, ("refuse", "allow")),
    ):
        if value not in known:
            raise ReplearnError(f"{name} must be one of {', '.join(known)}, got {value!r}.")
    for name, number in (("max_disagreement", max_disagreement), ("confidence", confidence)):
        if not 0 < number < 1:
            raise ReplearnError(
                f"{name} must be in (0, 1), got {number!r}. It is a probability; for 5 % pass 0.05."
            )


def _hint_notes(estimator: Any) -> list[str]:
    bits = hint_bits(estimator)
    if bits == 0:
        return []
    return [
        f"in each pair the first lab published a hint of {bits} bits about its sample, and the "
        "second used it"
    ]


def _pipeline_notes(estimator: Any) -> list[str]:
    """What stands in front of the classifier and learns from a lab's rows."""
    if not hasattr(estimator, "steps"):
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)  # it becomes a note
        return list(check_pipeline(estimator).problems)


def _copy_notes(X: Any, y: Any, copies: str) -> list[str]:
    share = copied_share((X, y), None)
    if share <= _COPIES or copies == "allow":
        return []
    note = (
        f"{share:.0%} of the rows are exact copies of others; if these are copies of the same "
        "subjects, the samples overlap and the audit is too favourable. Remove copies first"
    )
    warn(
        f'{note}, or pass copies="allow" if different subjects can have equal rows.',
        ReplicabilityWarning,
    )
    return [note]


def _rows_for_figures(X: Any) -> Any:
    n_rows = n_rows_of(X)
    step = max(1, n_rows // _MOST_IN_FIGURES)
    return take(X, np.arange(0, n_rows, step)[:_MOST_IN_FIGURES])


# --- going on after a stop --------------------------------------------------------------------


def _key(
    estimator: Any, data: str, asked: Sequence[tuple[str, int, int]], seed: str, test: LabelledRows
) -> str:
    """What must be the same for two audits to share their pairs; more pairs may follow."""
    facts = [
        type(estimator).__name__,
        repr(sorted(estimator.get_params().items(), key=lambda item: item[0])),
        seed,
        data,
        row_digest(*test),
        *(f"{question} {n_rows}" for question, n_rows, _ in asked),
    ]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _write_checkpoint(path: Path, key: str, done: dict[tuple[str, int], list[Pair]]) -> None:
    pairs = [asdict(pair) for found in done.values() for pair in found]
    # reals as text: they come back to the last bit
    content = {"format": CHECKPOINT, "key": key, "pairs": _texts(pairs), "version": 2}
    write_json(path, content)


def _read_checkpoint(path: Path, key: str) -> dict[tuple[str, int], list[Pair]]:
    if not path.exists():
        return {}
    content = read_json(path)
    if content.get("format") != CHECKPOINT or content.get("version") != 2:
        raise InvalidFile(
            f"{path} is not the checkpoint of an audit of this version. Name another file."
        )
    if content.get("key") != key:
        raise ReplearnError(
            f"{path} belongs to another audit (other estimator, data, test rows or pairs of parts)."
            " Delete it to start afresh, or name another checkpoint."
        )
    done: dict[tuple[str, int], list[Pair]] = {}
    try:
        for data in content["pairs"]:
            pair = Pair.from_data(_numbers(data))
            done.setdefault((pair.question, pair.index), []).append(pair)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InvalidFile(f"{path} is damaged. Delete it to start afresh.") from None
    return done


def _texts(value: Any) -> Any:
    if isinstance(value, float):
        return {"x": value.hex()}
    if isinstance(value, dict):
        return {name: _texts(item) for name, item in value.items()}
    return [_texts(item) for item in value] if isinstance(value, list | tuple) else value


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"x"}:
            return float.fromhex(value["x"])
        return {name: _numbers(item) for name, item in value.items()}
    return [_numbers(item) for item in value] if isinstance(value, list) else value
