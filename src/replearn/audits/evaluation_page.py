"""The page of an evaluation, for people."""

from replearn.audits.evaluation import Evaluation
from replearn.audits.report import Drawing, make_page, percent, require_report_packages


def evaluation_report(found: Evaluation, command: str) -> str:
    """The page of an evaluation.

    Parameters
    ----------
    found : Evaluation
    command : str
        What makes this page.

    Returns
    -------
    page : str
        HTML; the same bytes for the same evaluation.
    """
    require_report_packages()
    from replearn.audits import curve_figures as figures

    level = percent(found.worth.confidence)
    drawings = []
    if found.roc is not None:
        drawings.append(
            Drawing(
                "curves",
                "ROC curve",
                figures.roc_figure(found.roc),
                "Every threshold gives a point: how many of the positive rows are found, and how "
                f"many of the others are flagged with them. AUC {found.worth.auc}.",
            )
        )
    if found.bins:
        drawings.append(
            Drawing(
                "curves",
                "Calibration",
                figures.calibration_figure(found.bins),
                f"Rows in {len(found.bins)} groups of about equal size by their probability. On "
                "the dashed line the predicted share is the observed one. Bars: "
                f"{level} Wilson intervals.",
            )
        )
    return make_page(
        "evaluation.html",
        drawings,
        found=found,
        worth=found.worth,
        level=level,
        command=command,
    )
