"""A study: what labs share. The original publishes it, replications read it."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np

from replearn.codes import HalfspaceDesign
from replearn.documents import (
    Document,
    Length,
    NonNegative3,
    Positive3,
    Range,
    Sha256,
    Share3,
    Unfit,
    decimal_text,
)
from replearn.errors import ReplearnError, instance, short, whole_number
from replearn.glm import (
    GLM,
    MAX_NUMBERS,
    Between,
    GlmDesign,
    GlmModel,
    GlmPlan,
    GlmPromise,
    Hazard,
    NumberSpread,
)
from replearn.rows import ExactSums
from replearn.study import passes
from replearn.study.encoder import RowEncoder
from replearn.study.evidence import Evidence, guess_bits, rows_to_match
from replearn.study.passes import PooledFit, State, Sums
from replearn.tables import Profile, persons_of
from replearn.types import Mask, Vector
from replearn.words import Facts, Figure, Row, Spoken, by_rows, counted

#: What labs share besides a promise: told apart by its ``kind``.
Design = GlmDesign | HalfspaceDesign

#: Rows that a study may speak of.
MAX_ROWS = 1 << 40
StatedRows = Annotated[int, Range(1, MAX_ROWS)]
#: Widths may exceed what spread and rows imply by upper confidence bounds, up to this factor.
_MOST_UPPER = 8.0
#: Spreads that a study states may differ from those of a lab by this factor.
MOST_SPREAD = 3.0
#: A spread of nothing, beside the stated one: then no row is needed for the number.
_LEAST_SPREAD = 1e-6


class Study(Spoken, Document):
    """What a replication may know: the design, the promise and a commitment, not the model.

    Attributes
    ----------
    design : GlmDesign or HalfspaceDesign
        How rows become codes; its kind is that of the study.
    n_original : int
        Rows of the original.
    commitment : SHA-256 or None
        Of the original's model: its fingerprint, or, if sealed, that of nonce and fingerprint.
    sealed : bool
        Whether the commitment hides the fingerprint until the original opens it.

    See Also
    --------
    replearn.study.GlmStudy : of a generalised linear model.
    replearn.study.HalfspaceStudy : of one of the paper's algorithms.
    load : reads one from a file.

    Notes
    -----
    A study is one-way advice about the original's rows, a secure sketch [DORS08]: it says where
    inside its cell each number lies, and nothing about which cell. ``docs/format.md`` specifies
    every byte of the file.

    References
    ----------
    .. [DORS08] Dodis, Ostrovsky, Reyzin and Smith. Fuzzy extractors: how to generate strong keys
       from biometrics and other noisy data. SIAM Journal on Computing 38(1), 2008.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 2000)
    >>> y = table.pop("readmitted")
    >>> study = rl.ReplicableLogisticClassifier().fit(table, y).study_
    >>> study.n_original, study.design.target
    (2000, 'readmitted')
    """

    FORMAT = "replearn/study"

    design: Design
    n_original: int
    commitment: str | None
    sealed: bool = False

    def commits_to(self, fingerprint: str, nonce: str | None = None) -> bool | None:
        """Whether the original's model has this fingerprint; None if the seal hides it.

        Parameters
        ----------
        fingerprint : str
            Of a model.
        nonce : str, optional
            Opens a sealed study.

        Returns
        -------
        same : bool or None
            None: not known.
        """
        return self._commits(self.commitment, fingerprint, nonce)

    def _commits(self, commitment: str | None, fingerprint: str, nonce: str | None) -> bool | None:
        """Whether a commitment is one to this fingerprint."""
        instance("fingerprint", fingerprint, str, "Pass fingerprint_ of a fitted estimator.")
        if nonce is not None:
            instance("nonce", nonce, str, "Pass that of the original's opening.")
        if commitment is None or (self.sealed and nonce is None):
            return None
        if self.sealed:
            assert nonce is not None
            return commitment == sealed_commitment(nonce, fingerprint)
        return commitment == fingerprint

    def facts(self) -> Facts:
        """What the study says, in words.

        Returns
        -------
        facts : Facts
            A verdict, rows and figures: what ``print`` shows.
        """
        raise NotImplementedError

    def evidence(self, model: Any) -> Evidence | None:
        """What it proves that somebody gets this model; None if the study cannot tell.

        Parameters
        ----------
        model : Model
            Of this study.

        Returns
        -------
        evidence : Evidence or None
            Rows that match half of the time, and guesses that find the model.
        """
        return None


@dataclass(frozen=True)
class GlmStudy(Study):
    """What a replication of a generalised linear model may know.

    Attributes
    ----------
    design : GlmDesign
        How rows become codes, with the sketch.
    max_disagreement : decimal text
        Planned probability that a replication gets a different model.
    n_original, n_replication : int
        Rows of the original, and of the smallest replication that is promised the model.
    spreads : decimal texts
        Standard deviation of one row's influence on each number, at the original.
    between : decimal texts
        Standard deviation of what a new centre differs by in each number, however many its rows.
    n_centres : int
        Centres of the original that showed it; 1: assumed, 0: labs sample one population.
    profile : Profile
        What the original's columns look like, so that a lab notices other units.
    commitment : SHA-256 or None
        Of the original's model: its fingerprint, or, if sealed, that of nonce and fingerprint. None
        in a registered study, where nobody is first.
    slopes_commitment : SHA-256 or None
        The same of the model whose codes of constants are 0, so that a lab knows whether its base
        risk alone differs.
    sealed : bool
        Whether the commitment hides the fingerprint until the original opens it.

    See Also
    --------
    ReplicableLogisticClassifier : its ``study_`` is one.
    register_study : makes one in which nobody is first.
    load : reads one from a file.

    Notes
    -----
    A coefficient is rounded to a cell. The sketch shifts cells so that the original lies in the
    middle of its own, and tells nothing about which one that is. Widths follow from the spreads
    of single rows, what centres differ by, and ``max_disagreement``. ``docs/format.md``
    specifies the file.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 2000)
    >>> y = table.pop("readmitted")
    >>> study = rl.ReplicableLogisticClassifier().fit(table, y).study_
    >>> study.n_original, study.design.target
    (2000, 'readmitted')
    >>> study.disagreement(2000) < 0.01
    True
    """

    KIND = "glm"

    design: GlmDesign
    max_disagreement: Share3
    n_original: StatedRows
    n_replication: StatedRows
    spreads: Annotated[tuple[Positive3, ...], Length(1, MAX_NUMBERS)]
    between: Annotated[tuple[NonNegative3, ...], Length(1, MAX_NUMBERS)]
    n_centres: Annotated[int, Range(0, MAX_ROWS)]
    profile: Profile
    commitment: Sha256 | None = None
    slopes_commitment: Sha256 | None = None
    sealed: bool = False
    problems: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(
        cls,
        design: GlmDesign,
        promise: GlmPromise,
        spread: NumberSpread,
        profile: Profile,
        problems: Iterable[str] = (),
    ) -> "GlmStudy":
        """What an original states of itself; before it commits to a model, nobody is first."""
        # in three digits: a reader computes with the numbers that the file has
        deviations = spread.between.deviations.tolist()
        return cls(
            design=design,
            max_disagreement=decimal_text(promise.max_disagreement),
            n_original=promise.n_here,
            n_replication=promise.n_there,
            spreads=spread.stated,
            between=tuple(map(decimal_text, deviations)),
            n_centres=spread.between.n_centres,
            profile=profile,
            problems=tuple(problems),
        )

    def committed_to(self, model: GlmModel, nonce: str | None = None) -> "GlmStudy":
        """The same study with commitments to a model and to its slopes, which a nonce seals."""
        prints = [model.fingerprint, model.without_constants.fingerprint]

        # a hash of nonce and fingerprint hides both until the original sends the nonce
        if nonce is not None:
            prints = [sealed_commitment(nonce, one) for one in prints]
        commitment, slopes_commitment = prints
        return replace(
            self,
            commitment=commitment,
            slopes_commitment=slopes_commitment,
            sealed=nonce is not None,
        )

    def save(
        self, path: "str | os.PathLike[str]", private: bool = False, new: bool = False
    ) -> None:
        """Publish the study; refused where its promise cannot be kept.

        Parameters
        ----------
        path : path
            The file to write, whole or not at all.
        private : bool, default=False
            Only the owner may read it.
        new : bool, default=False
            Replace no file.
        """
        self.refuse_problems()
        super().save(path, private, new)

    def refuse_problems(self) -> None:
        """Stop where the promise cannot be kept."""
        if self.problems:
            raise ReplearnError(f"the study was not published: {' '.join(self.problems)}")

    def check(self) -> None:
        """Check that cell widths are consistent with rows and spreads, and that parts fit."""
        # one number for each coefficient
        if len(self.spreads) != self.design.n_numbers:
            raise Unfit(f"spreads must be {self.design.n_numbers} numbers")
        if len(self.between) != self.design.n_numbers:
            raise Unfit(f"between must be {self.design.n_numbers} numbers")
        if (self.n_centres == 0) == any(float(one) > 0 for one in self.between):
            raise Unfit("n_centres must be 0 if and only if centres do not differ")

        # without a sketch there is no original to commit to
        if (self.commitment is None) != (self.design.bits == 0):
            raise Unfit("a commitment must be there if and only if there is a sketch")
        if (self.commitment is None) != (self.slopes_commitment is None):
            raise Unfit("slopes_commitment must be there if and only if commitment is")
        if self.sealed and self.commitment is None:
            raise Unfit("sealed must be false without a commitment")

        # the parts speak of the same columns
        if not self.profile.is_of(self.design.encoding, self.design.classes):
            raise Unfit("the profile must have the columns and the target of the design")
        if not 0 < float(self.max_disagreement) < 1:
            raise Unfit("max_disagreement must be in (0, 1)")

        # wide cells would make agreement look like more than it is
        ratio = self.widths / self.implied_widths
        if not ((ratio > 0.9) & (ratio < _MOST_UPPER)).all():
            raise Unfit(
                "widths must be those that rows, spreads and max_disagreement imply, got some that "
                f"are {ratio.min():.2g} to {ratio.max():.2g} times as wide"
            )

    @property
    def widths(self) -> Vector:
        """Of the cells."""
        return self.design.cells.widths

    @property
    def planned_rows(self) -> tuple[int, int]:
        """Rows of the original, and of the smallest replication."""
        return self.n_original, self.n_replication

    def persons_of(self, n_rows: int) -> int | None:
        """About how many persons have so many rows at risk; None unless the study tells."""
        if isinstance(self.design.loss, Hazard):
            return persons_of(self.profile, n_rows)
        return None

    def sized(self, n_rows: int) -> str:
        """So many rows in words: of survival as persons, as far as the study tells."""
        n_persons = self.persons_of(n_rows)
        words = f"{n_rows:,} {self.design.loss.counted}"
        return words if n_persons is None else f"about {n_persons:,} persons ({words})"

    @cached_property
    def stated_spreads(self) -> Vector:
        """Standard deviation of one row's influence on each number, as the original states it."""
        return np.array(self.spreads, dtype=np.float64)

    @cached_property
    def centres(self) -> Between:
        """What a new centre differs by, as the original states it."""
        return Between(np.array(self.between, dtype=np.float64), self.n_centres)

    @property
    def implied_widths(self) -> Vector:
        """Widths that rows, spreads and centres imply, without what upper bounds add."""
        return self._widths_for(self.promise, self.centres)

    def _widths_for(self, promise: GlmPromise, between: Between) -> Vector:
        """Widths that a promise implies, with the spreads that the original states."""
        widths: Vector = GLM.sizes(promise, self.stated_spreads, between).widths
        return widths

    def disagreement(self, n_rows: int, new_centre: bool = False) -> float:
        """Estimated probability that a lab with so many rows gets a different model.

        The rows are a sample of the original's population, or those of a ``new_centre``. Standard
        deviations are geometric means of those that the original saw and those that its cells were
        planned with, as in its own certificate.

        Parameters
        ----------
        n_rows : int
            Rows of the lab.
        new_centre : bool, default=False
            Whether the lab is one that differs as centres do.

        Returns
        -------
        probability : float
            Estimated, not proved.
        """
        n_rows = whole_number("n_rows", n_rows)
        centres = Between.none(self.design.n_numbers)
        if new_centre:
            centres = self.centres

        # cells are wider than the stated spreads imply: by upper confidence bounds of these
        upper = np.sqrt(self.widths / self.implied_widths)
        plan = self.plan(self.stated_spreads * upper, centres)
        return GLM.stability(plan, n_rows, None).in_mode(plan.mode)

    def plan(self, spreads: Vector, between: Between) -> GlmPlan:
        """The study's cells, for labs whose rows have such spreads and whose centres so differ.

        Parameters
        ----------
        spreads : array
            Standard deviation of one row's influence on each number.
        between : Between
            What centres differ by.

        Returns
        -------
        plan : GlmPlan
            Of the numbers that labs agree on.
        """
        return GlmPlan(self.promise, spreads, between, self.widths).of(self.design.is_agreed)

    @property
    def promise(self) -> GlmPromise:
        """To a lab with the rows of the smallest replication."""
        rho, bits = float(self.max_disagreement), self.design.bits
        return GlmPromise(rho, bits, self.n_original, self.n_replication)

    def commits_to_slopes(self, model: GlmModel, nonce: str | None = None) -> bool | None:
        """Whether the original's model is this one but for the constants; None if sealed.

        Parameters
        ----------
        model : GlmModel
            Of this study.
        nonce : str, optional
            Opens a sealed study.

        Returns
        -------
        same : bool or None
            None: not known.
        """
        self._refuse_foreign(model)
        fingerprint = model.without_constants.fingerprint
        return self._commits(self.slopes_commitment, fingerprint, nonce)

    def evidence(self, model: GlmModel, spreads: Vector | None = None) -> Evidence:
        """What it proves that somebody gets this model.

        ``spreads`` are those that a lab finds in its own rows; numbers whose spread they deny count
        nothing, and rows that match half of the time are computed with the smaller ones. By default
        those that the study states.

        Parameters
        ----------
        model : GlmModel
            Of this study.
        spreads : array, optional
            Those that a lab finds in its own rows.

        Returns
        -------
        evidence : Evidence
            Rows that match half of the time, and guesses that find the model.
        """
        counts = np.ones(self.design.n_numbers, dtype=np.bool_)
        believed = stated = self.stated_spreads
        if spreads is not None:
            if np.shape(spreads) != stated.shape:
                raise ReplearnError(
                    f"spreads must be {stated.size} numbers, got {short(spreads)}. Leave them out "
                    "to take those that the study states."
                )
            ratio = stated / np.maximum(spreads, 1e-30)
            counts = (ratio > 1 / MOST_SPREAD) & (ratio < MOST_SPREAD)
            # a lab's own rows may show nothing
            believed = np.minimum(stated, np.maximum(spreads, _LEAST_SPREAD * stated))

        bits = self._guess_bits(model, self.widths, counts)
        if self.n_centres > 1:  # learned widths tell how strong each slope is, not its sign
            bits = min(bits, float(np.count_nonzero(counts & ~self.design.is_constant)))
        rows = rows_to_match(self.plan(believed, self.centres))
        return Evidence(rows, bits, is_open=self.commitment is not None and not self.sealed)

    def planned_bits(self, model: GlmModel, n_rows: int) -> float:
        """What a match would prove in cells of one population, planned for labs of so many rows.

        Parameters
        ----------
        model : GlmModel
            Of this study.
        n_rows : int
            Rows of such a lab.

        Returns
        -------
        bits : float
            Guesses that find the model, as a power of two.
        """
        n_rows = whole_number("n_rows", n_rows)
        one_population = Between.none(self.design.n_numbers)
        widths = self._widths_for(replace(self.promise, n_there=n_rows), one_population)
        return self._guess_bits(model, widths)

    def _guess_bits(
        self, model: GlmModel, widths: Vector, counts: Mask | Literal[True] = True
    ) -> float:
        """Guesses that find a model in cells of such widths, of numbers that count."""
        self._refuse_foreign(model)
        design = self.design
        counts = counts & ~design.is_constant  # the base rate gives constants away
        decoded = design.cells.decode(model.codes, design.published)
        offsets = design.cells.offsets(np.zeros(design.n_numbers), design.published)
        return guess_bits(widths[counts], offsets[counts], decoded[counts])

    def _refuse_foreign(self, model: GlmModel) -> None:
        """A model of other columns or cells has codes of another meaning."""
        instance("model", model, GlmModel, "Pass model_ of a fitted estimator, or load its file.")
        if model.codes.size != self.design.n_numbers:
            raise ReplearnError(
                f"model must have the {self.design.n_numbers} coefficients of the study, got one "
                f"of {model.codes.size}. Pass a model of this study."
            )

    def begin(self, opened: GlmModel | None = None) -> State:
        """What the first pass over rows is asked for; from an opened model one pass is enough.

        Parameters
        ----------
        opened : GlmModel, optional
            The original's, once it is known.

        Returns
        -------
        state : State
            For `sums`, or for `replearn.lab_sums`.
        """
        self._refuse_sums()
        if opened is not None:
            instance("opened", opened, GlmModel, "Ask the original for its model file.")
        return passes.begin(self.design, self.fingerprint, opened)

    def sums(self, batches: Iterable[Any], state: State) -> Sums:
        """What a pass gives on some of the rows: whole numbers that add up with ``+``.

        Parameters
        ----------
        batches : iterable of Arrow record batches, dataframes, paths, tables or encoded rows
            All rows, each once.
        state : State
            Of `begin`, or of the last `step`.

        Returns
        -------
        sums : Sums
            The same for the same rows in any order and in any batches.
        """
        self.check_state(state)
        if isinstance(batches, str) or hasattr(batches, "columns") or not np.iterable(batches):
            raise ReplearnError(
                f"batches must be several tables, got {short(batches)}. Pass one table as [table]."
            )
        return passes.add_up(self.design, state, batches)

    def step(self, sums: ExactSums, state: State) -> State | PooledFit:
        """What follows from the sums of all rows: the next state, or the fit.

        Parameters
        ----------
        sums : ExactSums
            The total of all parts.
        state : State
            Of `begin`, or of the last `step`.

        Returns
        -------
        state : State or PooledFit
            What to ask for next, or the model.
        """
        self.check_state(state)
        instance("sums", sums, ExactSums, "Pass the total of what sums() gave.")
        return passes.advance(self.design, state, sums)

    def _refuse_sums(self) -> None:
        """Sums are of rows of several labs, which have no constant in common."""
        if self.design.constant == "local":
            raise ReplearnError(
                "sums of several labs give one constant, but this study leaves the constant to "
                "each lab. Replicate it at each lab: replearn replicate STUDY TABLE."
            )

    def check_state(self, state: State) -> None:
        """Refuse a state of a different study, or one that does not fit its coefficients.

        Parameters
        ----------
        state : State
            Of `begin`, or of the last `step`.
        """
        self._refuse_sums()
        instance("state", state, State, "Pass that of begin(), or of the last step().")
        if state.study != self.fingerprint:
            raise ReplearnError(
                f"the state must be one of this study, {self.fingerprint[:16]}, got one of "
                f"{state.study[:16]}. Use the files of one study."
            )

        # shapes that cannot be those of this design
        loss, asked, counts = self.design.loss, state.newton, state.counts
        shape = (loss.n_scores, 1 + RowEncoder.of(self.design).n_terms)
        n_totals = len(self.design.classes or (self.design.target,))  # or that of numbers
        if (asked is not None and asked.theta.shape != shape) or (
            counts is not None and counts.totals.size != n_totals
        ):
            raise ReplearnError(
                f"the state must hold {shape} coefficients and {n_totals} counts, got others. Ask "
                "whoever combines for it again."
            )

    @property
    def condition(self) -> str:
        """Which labs the planned rate is for."""
        if self.n_centres == 0:
            return "samples of one population"
        if self.n_centres == 1:
            return "typical centres"
        return f"centres that differ as these {self.n_centres} do"

    def facts(self) -> Facts:
        """What the study says, in words.

        Returns
        -------
        facts : Facts
            A verdict, rows and figures: what ``print`` shows.
        """
        design = self.design

        verdict = "A study to replicate: labs with rows of their own can get the same model."
        if self.commitment is None:
            verdict = "A registered study: nobody is first, every lab may fit it."
        rows = [
            Row("target", design.target),
            Row("columns", len(design.encoding.own_columns)),
            Row("coefficients", design.n_numbers, note=bits_each(design.bits), key="coded_numbers"),
        ]
        if design.constant:
            rows.append(Row("constant", "each lab fits its own"))
        if self.commitment:
            rows.append(self._original_size())

        # what was planned, and for whom
        promised = 1 - float(self.max_disagreement)
        commitment = "sealed" if self.sealed else self.commitment or "none"
        rows += [
            self._planned_size(),
            Row("agreement rate", promised, "%", note=f"planned for {self.condition}"),
            Row("commitment", commitment),
        ]
        return Facts(
            verdict,
            rows,
            details=[
                Row("study", self.fingerprint),
                Row("ridge", design.ridge),
                Row("seed", design.seed),
            ],
            values={"rows_of_a_lab": self.n_replication},
            figures=[
                Figure(
                    "How often a lab gets the same model, by its sample size",
                    lambda: by_rows(self.n_replication, self.disagreement),
                    "Estimated for labs with rows of the original's population.",
                )
            ],
        )

    def _original_size(self) -> Row:
        """What the original says that it has."""
        if self.persons_of(self.n_original) is None:
            return Row("rows of the original", self.n_original, note="as the lab states")
        return Row("the original has", self.sized(self.n_original), note="as the lab states")

    def _planned_size(self) -> Row:
        """What other labs are planned to have."""
        name = "planned for labs with"
        if self.persons_of(self.n_replication) is None:
            return Row(name, self.n_replication, "rows or more", key="rows_of_a_lab")
        return Row(name, self.sized(self.n_replication), note="or more")


def bits_each(n_bits: int) -> str:
    """What is published about each coefficient."""
    return "one byte each" if n_bits == 8 else f"{counted(n_bits, 'bit')} each"


def sealed_commitment(nonce: str, fingerprint: str) -> str:
    """SHA-256 of a secret nonce and a fingerprint, in hex."""
    return hashlib.sha256(f"replearn/seal/1\n{nonce}\n{fingerprint}".encode()).hexdigest()


def given_study(given: Any) -> Study:
    """What callers may pass as a study: a path, a study, or a fitted estimator that has one."""
    study = given
    if isinstance(given, str | os.PathLike):
        study = Study.load(given)
    elif hasattr(given, "get_params"):
        study = getattr(given, "study_", None)
        if study is None:
            raise ReplearnError(
                f"study must be a fitted estimator that has a study, got one that is not fitted or "
                f"publishes nothing: {short(given)}. Fit it first, or pass a study file."
            )

    if not isinstance(study, Study):
        raise ReplearnError(
            f"study must be a path, a Study or a fitted estimator, got {short(given)}. Pass "
            "study_ of an original."
        )
    return study


def given_glm_study(given: Any) -> GlmStudy:
    """The same where sums over rows count, which halfspaces do not have."""
    study = given_study(given)
    if not isinstance(study, GlmStudy):
        raise ReplearnError(
            "study must be one of a regression, got one of halfspaces. Its labs can do no more "
            "than replicate it."
        )
    return study
