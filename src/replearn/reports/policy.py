"""What a data owner lets leave: a small file that every command obeys."""

from dataclasses import dataclass
from typing import Annotated, Literal

from replearn.documents import DecimalText, Document, Length, Range
from replearn.errors import ReplearnError
from replearn.study import GlmStudy
from replearn.words import Facts, Row, Spoken

Kind = Literal["study", "model", "sums", "shares", "predictions", "page", "rows"]


@dataclass(frozen=True)
class Policy(Spoken, Document):
    """Rules of a data owner.

    Attributes
    ----------
    least_rows : int
        Nothing that was made from fewer rows may leave.
    least_count : int
        A published level has at least so many rows; so have terms and classes of sums, where they
        have any.
    most_coefficients_per_row : decimal text
        A study or model may have at most so many numbers for each row.
    may_leave : tuple of str
        Kinds of files that may be written: study, model (in any form, with the states of a joint
        fit), sums, shares (of sums, in secret; where sums may leave, shares may, too), predictions
        (printed ones, too), page, rows.

    Notes
    -----
    A file by hand: ``{"format": "replearn/policy", "version": 1, "least_rows": 500, "least_count":
    20, "most_coefficients_per_row": "0.05", "may_leave": ["study", "sums"]}``. Commands find it
    as replearn.policy.json in the working folder and beside their inputs, and where REPLEARN_POLICY
    says; each of them must allow it.
    """

    FORMAT = "replearn/policy"

    least_rows: Annotated[int, Range(0, 1 << 40)]
    least_count: Annotated[int, Range(0, 1 << 40)]
    most_coefficients_per_row: Annotated[str, DecimalText(3, 0, 1e6)]
    may_leave: Annotated[tuple[Kind, ...], Length(0, 7)]

    def allow(self, kind: Kind, n_rows: int | None = None, n_numbers: int | None = None) -> None:
        """Refuse a file that must not leave, with the rule."""
        is_hidden = kind == "shares" and "sums" in self.may_leave  # they tell less
        if kind not in self.may_leave and not is_hidden:
            raise ReplearnError(
                f"the data owner's policy lets {', '.join(self.may_leave) or 'nothing'} leave, "
                f"got {kind}. Ask the data owner."
            )

        # few rows show single persons
        if n_rows is not None and n_rows < self.least_rows:
            raise ReplearnError(
                f"the data owner's policy asks for at least {self.least_rows:,} rows, got "
                f"{n_rows:,}. Get more rows, or ask the data owner."
            )

        # and so do many coefficients of few rows
        most = float(self.most_coefficients_per_row)
        if n_rows is not None and n_numbers is not None and n_numbers > most * n_rows:
            raise ReplearnError(
                f"the data owner's policy allows {most:g} coefficients for each row, got "
                f"{n_numbers:,} of {n_rows:,} rows. Drop columns, or ask the data owner."
            )

    def allow_levels(self, study: GlmStudy) -> None:
        """Refuse a study with levels of too few rows."""
        least = self.least_count / study.n_original
        rare = [
            column.name
            for column in study.profile.columns
            if column.kind == "levels" and any(0 < float(share) < least for share in column.shares)
        ]
        if rare:
            raise ReplearnError(
                f"the data owner's policy asks for {self.least_count:,} rows of each level, got "
                f"fewer in {', '.join(map(repr, rare[:5]))}. Drop these columns, or join levels."
            )

    def facts(self) -> Facts:
        """The rules, in words."""
        return Facts(
            f"A data owner's policy: {', '.join(self.may_leave) or 'nothing'} may leave.",
            [
                Row("rows, at least", self.least_rows),
                Row("rows of a level, at least", self.least_count),
                Row("coefficients for a row, at most", self.most_coefficients_per_row),
            ],
        )
