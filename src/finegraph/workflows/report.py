"""Writing the report of runs and studies: one HTML file, and plots for print.

A plain function from names to a dataclass; nothing is printed here. It reads result files alone. The same files give
the same bytes. Cost: seconds for some thousand photos.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from finegraph.errors import InputError, RunFolderError
from finegraph.files.durable import make_folder, reason_of, write_over
from finegraph.reports.plots.plot_style import need_matplotlib
from finegraph.reports.report_page import Compared, compared, report_page
from finegraph.reports.run_results import RunResults, read_run
from finegraph.reports.study_results import StudyResults, is_study, read_study_results
from finegraph.reports.summary import summary_of, without_marks

DEFAULT_NAME = "report.html"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written.

    Attributes:
        path: the page.
        size: its size in bytes.
        runs: the runs in it, by name.
        studies: the studies in it, by name.
        photos: how many photos it shows.
        summary: the sentences that it opens with; none of studies alone.
        plots: the files of plots.
        notes: what is odd about the plots, such as characters that no font has.
    """

    path: str
    size: int
    runs: tuple[str, ...]
    studies: tuple[str, ...]
    photos: int
    plots: tuple[str, ...]
    summary: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def write_report(
    runs: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str] | None = None,
    *,
    evaluation: str | None = None,
    plots: str | os.PathLike[str] | None = None,
    title: str | None = None,
    figures: str | os.PathLike[str] | None = None,
) -> Report:
    """Write the report of runs, studies or both.

    Args:
        runs: run folders, model folders with evaluations, or study folders. Two or more runs are compared.
        out: the file, which is replaced if it exists; by default `report.html` in the first folder.
        evaluation: the evaluation of each run to show; by default `test`.
        plots: a folder to write plots to, each as SVG and PNG.
        title: what stands above the page.
        figures: the former name of `plots`.

    Raises:
        RunFolderError: a folder is not a run or study, has no evaluation, or a file cannot be written.
        InputError: the runs cannot be compared.
        MissingExtraError: plots are asked for, and matplotlib is not installed.
    """
    if figures is not None:
        warnings.warn("figures is called plots now", DeprecationWarning, stacklevel=2)
        plots = figures if plots is None else plots
    if plots is not None:
        need_matplotlib()
    if not runs:
        raise InputError("expected at least one run or study to report on")
    if len({Path(each).absolute() for each in runs}) < len(runs):
        raise InputError("expected different runs to compare, got the same one twice")
    studies = [read_study_results(each) for each in runs if is_study(each)]
    folders = [Path(each) for each in runs if not is_study(each)]
    runs_read = [read_run(folder, name, evaluation) for folder, name in zip(folders, _names(folders), strict=True)]
    together = compared(runs_read) if runs_read else None
    page = report_page(runs_read, studies, title).encode("utf-8", "backslashreplace")
    path = Path(runs[0]) / DEFAULT_NAME if out is None else Path(out)
    drawn, notes = _plots(runs_read, studies, Path(plots)) if plots is not None else ([], [])
    try:
        make_folder(path.absolute().parent)
        write_over(path, page)
    except OSError as error:
        raise RunFolderError(f"{path}: the report cannot be written: {reason_of(error)}") from error
    return Report(
        path=str(path),
        size=len(page),
        runs=tuple(run.name for run in runs_read),
        studies=tuple(study.name for study in studies),
        photos=len(together.runs[0].photos) if together else 0,
        summary=() if together is None else _sentences(together),
        plots=tuple(drawn),
        notes=tuple(notes),
    )


def _sentences(compared_runs: Compared) -> tuple[str, ...]:
    """The summary as plain text."""
    return tuple(
        without_marks(one.text) for one in summary_of(compared_runs.runs, compared_runs.baseline, compared_runs.other)
    )


def _names(folders: Sequence[Path]) -> list[str]:
    """The names of runs: that of the folder, preceded by that of the folder above if two are the same."""
    whole = [folder.absolute() for folder in folders]
    whole = [folder.parent if folder.name == "model" and folder.parent.name else folder for folder in whole]
    names = [folder.name or str(folder) for folder in whole]
    return [
        f"{folder.parent.name}/{name}" if names.count(name) > 1 else name
        for folder, name in zip(whole, names, strict=True)
    ]


def _plots(runs: Sequence[RunResults], studies: Sequence[StudyResults], folder: Path) -> tuple[list[str], list[str]]:
    """Write the plots; returns their names, and notes."""
    from finegraph.reports.plots.report_plots import draw_plots

    try:
        make_folder(folder)
        drawn = draw_plots(compared(runs) if runs else None, studies, folder)
        return [str(folder / name) for name in drawn.names], drawn.notes
    except OSError as error:
        raise RunFolderError(f"{folder}: the plots cannot be written: {reason_of(error)}") from error
