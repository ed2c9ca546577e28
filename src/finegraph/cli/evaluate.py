"""`finegraph evaluate`."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from finegraph.cli.failures import AGAIN, interruptible
from finegraph.cli.next_commands import model_commands, own_command, print_next
from finegraph.cli.progress import progress
from finegraph.cli.shared_options import BadFile, Json, Run, Workers
from finegraph.cli.terminal import console, count, percent_or_dash, print_json, print_left_out, print_table, printable

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.evaluation import EvaluationResult
    from finegraph.evaluation.number_metrics import NumberMetrics, OrderMetrics
    from finegraph.workflows.evaluate import RunEvaluation

MAX_KINDS = 20
"""How many kinds are printed on a terminal, the worst ones first; the files have them all."""


def evaluate(
    run: Run,
    data: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="The photos; by default those that the run was trained with.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="The split to evaluate on, held-out or all; by default test, else what was held out."),
    ] = None,
    views: Annotated[int, typer.Option(metavar="1|10", help="How many views of each photo to average.")] = 1,
    box: Annotated[
        bool | None,
        typer.Option("--box/--no-box", help="Whether photos are cut to their boxes; by default as in training."),
    ] = None,
    risk: Annotated[float, typer.Option(min=0.0, max=1.0, help="How often the sure answer may be wrong.")] = 0.05,
    questions: Annotated[
        int, typer.Option(min=0, help="How many questions to ask about a photo, to see how many settle it; 0 for none.")
    ] = 3,
    calibrate: Annotated[
        str | None,
        typer.Option(
            metavar="SPLIT", help="Fit a temperature, and a threshold for unknown photos, on this split first."
        ),
    ] = None,
    save_calibration: Annotated[
        bool, typer.Option("--save-calibration", help="Save the fitted values with the model.")
    ] = False,
    unknown: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="Photos of none of the classes, to see how many of them are found."),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(help="The score of unknown photos: log_prob, entropy, kinds, energy or max_score."),
    ] = None,
    kept: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The share of known photos that the threshold is to keep.")
    ] = 0.95,
    retrieval: Annotated[bool, typer.Option("--retrieval", help="Also judge the features for search.")] = False,
    details: Annotated[
        bool,
        typer.Option(
            "--details/--no-details",
            help="Whether to keep the details for reports: small pictures, explanations, similar training photos.",
        ),
    ] = True,
    name: Annotated[str | None, typer.Option(help="The name of the evaluation.")] = None,
    on_bad_file: BadFile = "error",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Evaluate a trained model on photos.

    The metrics and the answer to each photo are kept in the run, in evaluations/NAME/result.json and samples.csv.
    """
    from finegraph.model.answering.unknown import DEFAULT_SCORE
    from finegraph.workflows.evaluate import evaluate_run

    options: dict[str, Any] = {"views": views, "on_bad_file": on_bad_file}
    interrupted = f"no evaluation was written; {AGAIN}, with the features that are stored"
    with interruptible(interrupted), progress("photos") as advance:
        evaluation = evaluate_run(
            run,
            data=data,
            split=split,
            box=box,
            name=name,
            risk=risk,
            questions=questions,
            calibrate=calibrate,
            save_calibration=save_calibration,
            unknown=unknown,
            score=score or DEFAULT_SCORE,
            kept=kept,
            workers=workers,
            retrieval=retrieval,
            details=details,
            progress=advance,
            **options,
        )
    if evaluation is None:  # one of several processes, of which the first prints
        return
    if as_json:
        print_json(
            {**evaluation.result.to_dict(), "folder": str(evaluation.folder), "trained_on": evaluation.trained_on}
        )
    else:
        _print(console(), evaluation)
    print_left_out(
        console(stderr=True), [f"{bad_photo.path}: {bad_photo.reason}" for bad_photo in evaluation.result.bad_photos]
    )
    if not as_json:
        print_next(console(), _next(str(run), evaluation, details))


def _print(out: Console, evaluation: RunEvaluation) -> None:
    """Print the evaluation."""
    result = evaluation.result
    unlabelled = result.photos - result.labelled
    which = "held out in training" if evaluation.held_out else str(result.split)
    parts = [f"{count(result.photos, 'photo')} of {printable(str(result.data))}, {printable(which)}"]
    parts += [f"{unlabelled:,} of them without a fine label"] * (unlabelled > 0)
    parts += ["10 views each"] * (result.views == 10)
    parts += ["cut to their boxes"] * result.box
    out.print(", ".join(parts))
    print_table(out, ("metric", "value"), _metrics(result), right=(1,))
    _print_kinds(out, result)
    _print_numbers(out, result)
    _print_sure(out, result)
    _print_questions(out, result)
    _print_calibration(out, evaluation)
    _print_unknown(out, result)
    _print_retrieval(out, result)
    if evaluation.gone:
        out.print(f"note: {count(evaluation.gone, 'photo')} that were held out are not there any more")
    if evaluation.trained_on:
        out.print(
            f"note: {count(evaluation.trained_on, 'photo')} of these were trained on, so the metrics flatter the model"
        )
    out.print(f"kept in {printable(str(evaluation.folder))}")


def _next(run: str, evaluation: RunEvaluation, details: bool) -> list[tuple[str, str]]:
    """What to do with an evaluation."""
    commands = []
    if details:
        from finegraph.errors import InputError
        from finegraph.reports.run_results import find_evaluation

        try:
            named = (
                ""
                if find_evaluation(run).name == evaluation.folder.name
                else f" --evaluation {quote(evaluation.folder.name)}"
            )
        except InputError:  # there are several, and none is the one to show
            named = f" --evaluation {quote(evaluation.folder.name)}"
        page = "one page: confusions, examples, calibration"
        commands.append((f"{own_command()} report {quote(run)}{named}", page))
    return [*commands, *model_commands(run)]


def _metrics(result: EvaluationResult) -> list[tuple[str, str]]:
    """The metrics that are one number."""
    return [
        ("top 1", percent_or_dash(result.top1)),
        ("top 5", percent_or_dash(result.top5)),
        ("mean over classes", percent_or_dash(result.mean_per_class)),
        ("full path (fine and all kinds)", percent_or_dash(result.full_path)),
        ("inconsistent answers", percent_or_dash(result.inconsistency)),
        ("mistake severity (kinds that differ)", _number(result.mistake_severity)),
        ("negative log-likelihood", _number(result.nll)),
        ("calibration error", percent_or_dash(result.calibration["fine"].error)),
    ]


def _print_kinds(out: Console, result: EvaluationResult) -> None:
    """The kinds; on a terminal only the worst of many."""
    kinds = list(result.kinds)
    if out.is_terminal and len(kinds) > MAX_KINDS:
        worst = sorted(kinds, key=lambda kind: -1.0 if result.kinds[kind] is None else result.kinds[kind] or 0.0)
        kinds = [kind for kind in kinds if kind in set(worst[:MAX_KINDS])]
        out.print(f"the {MAX_KINDS} kinds with the lowest accuracy of {len(result.kinds)}; --json has them all")
    rows = [
        (
            kind,
            percent_or_dash(result.kinds[kind]),
            percent_or_dash(result.calibration[kind].error),
            f"{result.kind_photos[kind]:,}",
        )
        for kind in kinds
    ]
    if rows:
        print_table(out, ("kind", "accuracy", "calibration error", "photos"), rows, right=(1, 2, 3))


def _print_sure(out: Console, result: EvaluationResult) -> None:
    """The sure answers."""
    sure = result.sure
    levels = [f"{printable(level)} {share:.1%}" for level, share in sure.levels.items() if share > 0]
    out.print(
        f"sure answers at a risk of {sure.risk:.1%}: for {percent_or_dash(sure.coverage)} of the photos, "
        f"{percent_or_dash(sure.realised_risk)} of them wrong" + (f" ({', '.join(levels)})" if levels else "")
    )


def _print_numbers(out: Console, result: EvaluationResult) -> None:
    """How well numbers and ordered kinds are predicted."""
    from finegraph.model.answering.predictions import in_digits

    rows = [
        (
            printable(name),
            f"{in_digits(metrics.error)} {metrics.unit}".strip(),
            "" if metrics.median_error is None else f"{in_digits(metrics.median_error)} {metrics.unit}".strip(),
            "" if metrics.best_label_error is None else f"{in_digits(metrics.best_label_error)} {metrics.unit}".strip(),
            percent_or_dash(metrics.coverage.get("0.9")),
            *_correlations(metrics),
        )
        for name, metrics in result.numbers.items()
        if metrics.error is not None
    ]
    rows += [
        (
            printable(name),
            "",
            f"{metrics.steps:.2f} steps",
            "" if metrics.best_label_steps is None else f"{metrics.best_label_steps:.2f} steps",
            "",
            *_correlations(metrics),
        )
        for name, metrics in result.orders.items()
        if metrics.steps is not None
    ]
    if rows:
        heads = ("number", "error of the mean", "of the median", "of the best label", "in 90 % intervals")
        print_table(out, (*heads, "Spearman", "Kendall"), rows, right=(1, 2, 3, 4, 5, 6))


def _correlations(metrics: NumberMetrics | OrderMetrics) -> tuple[str, str]:
    """The two rank correlations, nothing where one is not defined."""
    both = metrics.spearman, metrics.kendall
    spearman, kendall = ("" if value is None else f"{value:.2f}" for value in both)
    return spearman, kendall


def _print_questions(out: Console, result: EvaluationResult) -> None:
    """How many questions settle how many photos."""
    asked = result.questions
    if asked is None or len(asked.settled) < 2:
        return
    out.print(
        f"the best questions about {count(asked.photos, 'photo')}, answered as the graph says; settled: the best label "
        f"is sure at a risk of {asked.risk:.1%}"
    )
    rows = [
        (str(number), percent_or_dash(settled), percent_or_dash(right), percent_or_dash(top1))
        for number, (settled, right, top1) in enumerate(zip(asked.settled, asked.right, asked.top1, strict=True))
    ]
    print_table(out, ("questions", "settled", "right of these", "top 1"), rows, right=(0, 1, 2, 3))


def _print_calibration(out: Console, evaluation: RunEvaluation) -> None:
    """What was fitted."""
    fit = evaluation.result.temperature_fit
    if fit is None:
        out.print(f"temperature {evaluation.result.temperature:.3g}{_fitted_before(evaluation)}")
        return
    saved = ", saved with the model" if evaluation.saved else ""
    out.print(
        f"temperature {fit.temperature:.3g}, fitted on {count(fit.photos, 'photo')} of "
        f"{printable(str(evaluation.result.calibrated_on))} (negative log-likelihood there {fit.nll_before:.3f} -> "
        f"{fit.nll_after:.3f}){saved}"
    )


def _fitted_before(evaluation: RunEvaluation) -> str:
    """Where the temperature of the model comes from."""
    before = evaluation.fitted_before
    if before is None:
        return ", not fitted" if evaluation.result.temperature == 1.0 else ""
    which = "these photos" if evaluation.fitted_on_these else f"{count(before['photos'], 'photo')} of {before['split']}"
    return printable(f", fitted before on {which}")


def _print_unknown(out: Console, result: EvaluationResult) -> None:
    """How well photos of none of the classes are found."""
    unknown = result.unknown
    if unknown is None:
        return
    if unknown.threshold is not None:
        out.print(
            f"unknown photos ({unknown.score} above {unknown.threshold:.4g}): {percent_or_dash(unknown.known_kept)} of "
            f"the known photos are kept, {unknown.kept:.1%} were wanted"
        )
    if unknown.photos:
        detected = "" if unknown.detected is None else f"{percent_or_dash(unknown.detected)} found, "
        out.print(
            f"of {unknown.photos:,} photos of none of the classes: {detected}AUROC {percent_or_dash(unknown.auroc)}, "
            f"{percent_or_dash(unknown.fpr_at_kept)} would pass for known where {unknown.kept:.1%} of the known ones do"
        )
        areas = sorted(unknown.auroc_by_score.items(), key=lambda pair: -pair[1])
        out.print("AUROC of all scores: " + ", ".join(f"{name} {area:.1%}" for name, area in areas))


def _print_retrieval(out: Console, result: EvaluationResult) -> None:
    """How good the features are for search."""
    retrieval = result.retrieval
    if retrieval is None:
        return
    depths = [
        f"{percent_or_dash(value)} of the first {depth}" for depth, value in retrieval.hierarchical_precision.items()
    ]
    out.print(
        f"search among {count(retrieval.photos, 'photo')} ({retrieval.queries:,} asked): mean average precision "
        f"{percent_or_dash(retrieval.mean_average_precision)}, hierarchical precision {', '.join(depths)}"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
