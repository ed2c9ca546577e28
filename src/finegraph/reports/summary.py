"""The summary of a report: five sentences with the main results and their numbers.

    how good       the share of right fine labels, the kind that says most, and the difference from the baseline
    how sure       whether probabilities mean what they say, and what the sure answers are worth
    weakest        the classes that are surely bad: by the upper end of the interval of their share of right answers, so
                   that a class of two photos does not come before one of twenty
    wrong labels   photos answered surely, but against their label; beside it how many such answers the probabilities
                   themselves expect where all labels are right
    photograph     classes by mistakes / (training photos + 1). A mistake counts for both classes of the pair. If the
                   error falls like a power of the training photos, this is what one photo more of a class gains, up to
                   a factor that all classes share

Each sentence is there even without a result, and then says that there is none. Cost: linear in the photos.

Numbers and names have the same form in all sentences of a report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from finegraph.data.dataset import MISSING
from finegraph.evaluation.intervals import MeanInterval, share_interval
from finegraph.reports.comparison import compare_runs, kind_shares
from finegraph.reports.page.page_data import short_names
from finegraph.reports.page.svg_charts import signed
from finegraph.reports.run_results import RunResults

MAX_NAMED = 3
"""How many classes a sentence names."""
_ISOLATE, _END = "\u2068", "\u2069"


@dataclass(frozen=True)
class Sentence:
    """One sentence of the summary.

    Attributes:
        topic: what it is about, in a word or two.
        text: the sentence; names in it are kept apart from the direction of writing around them.
        section: the section of the page that has more.
        photos: the rows of the photos that it is about.
    """

    topic: str
    text: str
    section: str
    photos: tuple[int, ...] = ()


def summary_of(runs: Sequence[RunResults], baseline: int, other: int) -> list[Sentence]:
    """The five sentences about a run.

    Args:
        runs: on the same photos.
        baseline: which of them the others are compared with.
        other: which of them the sentences are about.
    """
    run = runs[other]
    known = run.arrays["fine"] != MISSING
    suspects = surely_contradicted(run)
    return [
        Sentence("How good", _how_good(runs, baseline, other, known), "accuracy"),
        Sentence("How sure", _how_sure(run, known), "calibration"),
        Sentence("Weakest classes", _weakest(run, known), "classes"),
        Sentence("Labels to check", _labels_to_check(run, known, suspects), "worst", tuple(suspects)),
        Sentence("Photograph next", _to_photograph(run, known), "training" if run.about.get("training") else "classes"),
    ]


def telling_kind(run: RunResults) -> str | None:
    """The kind whose answers are right most often beyond always naming its most frequent label; None without any."""
    best: tuple[float, str | None] = (-np.inf, None)
    for place, kind in enumerate(run.graph.kinds):
        judged = kind_shares(run, kind)
        true = run.arrays["kinds_true"][:, place]
        if judged is None or np.isnan(judged).all() or not (true >= 0).any():
            continue
        often = np.bincount(true[true >= 0]).max() / (true >= 0).sum()
        gain = float(np.nanmean(judged) - often)
        best = max(best, (gain, kind), key=lambda candidate: candidate[0])
    return best[1]


def surely_contradicted(run: RunResults) -> list[int]:
    """The photos whose answer is sure, at the risk of the evaluation, but not their label; the least probable first."""
    wrong = (run.arrays["fine"] != MISSING) & ~run.right & _is_sure(run)
    rows = np.flatnonzero(wrong)
    return [int(row) for row in rows[np.argsort(run.arrays["log_prob"][rows], kind="stable")]]


def _is_sure(run: RunResults) -> NDArray[np.bool_]:
    return np.asarray(run.arrays["probability"] >= 1.0 - run.result.sure.risk)


def _how_good(runs: Sequence[RunResults], baseline: int, other: int, known: NDArray[np.bool_]) -> str:
    metrics = {metric.name: metric for metric in compare_runs(runs, baseline)}
    top = metrics["top 1"]
    value, split = top.values[other], runs[other].result.split
    photos = f"the {counted(int(known.sum()), 'photo')}" + (f" of {apart(split)}" if split else "")
    kind = telling_kind(runs[other])
    about = None if kind is None else metrics[kind].values[other]
    about_kind = "" if about is None else f"“{apart(kind or '')}” for {percent_with_range(about)}"
    if value is None:
        opening = (
            f"None of {counted(len(known), 'photo')} has a known fine label, so one cannot tell how many are right"
        )
        return f"{opening}; it is right about {about_kind}." if about_kind else f"{opening}."
    text = f"{apart(runs[other].name)} is right about the fine label for {percent_with_range(value)} of {photos}"
    if about_kind:
        text += f" and about {about_kind}"
    difference = top.differences[other]
    if difference is None:
        return f"{text}; in brackets, 95 % intervals."
    return f"{text}; {_against(difference, top.verdicts[other], runs[baseline].name)}."


def _against(difference: MeanInterval, verdict: str | None, baseline: str) -> str:
    low, high = (signed(100 * end, 1) for end in (difference.low, difference.high))
    reach = f"{signed(100 * difference.mean, 1)} points, 95 % interval {low} to {high}"
    if verdict == "cannot tell":
        return f"whether that is better than {apart(baseline)} one cannot tell ({reach})"
    return f"that is {verdict} than {apart(baseline)} ({reach})"


def _how_sure(run: RunResults, known: NDArray[np.bool_]) -> str:
    sure = run.result.sure
    allowed = f"at an allowed risk of {100 * sure.risk:g} %"
    if not sure.coverage:
        answers = f"no answer is sure {allowed}"
    else:
        wrong = "" if sure.realised_risk is None else f", and {percent(sure.realised_risk)} of them are wrong"
        answers = f"{allowed} it has a sure answer for {percent(sure.coverage)} of the photos{wrong}"
    if not known.any():
        return (
            f"{answers[0].upper()}{answers[1:]}; whether its probabilities hold one cannot tell without known labels."
        )
    right = run.right[known].astype(np.float64)
    claimed = float(run.arrays["probability"][known].mean())
    interval = share_interval(int(right.sum()), len(right))
    error = run.result.calibration["fine"].error
    numbers = f"{percent(claimed)} claimed on average, {percent(interval.mean)} right"
    numbers += "" if error is None else f", calibration error {percent(error)}"
    if interval.low <= claimed <= interval.high:
        words = f"As far as these photos can tell, its probabilities mean what they say ({numbers})"
    else:
        words = f"It is {'too sure of itself' if claimed > interval.mean else 'less sure than it could be'} ({numbers})"
    return f"{words}; {answers}."


def _weakest(run: RunResults, known: NDArray[np.bool_]) -> str:
    count, right = _per_class(run, known)
    evaluated, bad = int((count > 0).sum()), np.flatnonzero(right < count)
    if not evaluated:
        return "Which classes are weak one cannot tell without known labels."
    if not len(bad):
        few = int(np.median(count[count > 0]))
        return (
            f"No class has a wrong answer: all {counted(int(count.sum()), 'photo')} of "
            f"{counted(evaluated, 'class', 'classes')} are right, at the median {counted(few, 'photo')} of a class."
        )
    ends = np.array([share_interval(int(right[label]), int(count[label])).high for label in bad.tolist()])
    first = bad[np.lexsort((bad, -count[bad], ends))][:MAX_NAMED].tolist()
    named = [f"{apart(run.graph.fine[label])} ({_class_words(run, label, count, right)})" for label in first]
    is_or_are, has_or_have = "is" if len(first) == 1 else "are", "has" if len(bad) == 1 else "have"
    classes = counted(evaluated, "evaluated class", "evaluated classes")
    return f"{listed(named)} {is_or_are} weakest; {len(bad):,} of {classes} {has_or_have} a wrong answer."


def _class_words(run: RunResults, label: int, count: NDArray[np.int64], right: NDArray[np.int64]) -> str:
    """How many photos of a class are right, and what it is most often taken for."""
    answers = run.arrays["predicted"][(run.arrays["fine"] == label) & ~run.right]
    taken = np.bincount(answers, minlength=len(run.graph))
    most_taken = int(taken.argmax())
    times = "" if taken[most_taken] == 1 else f" {taken[most_taken]:,} times"
    return f"{right[label]:,} of {count[label]:,} right, taken{times} for {apart(run.graph.fine[most_taken])}"


def _labels_to_check(run: RunResults, known: NDArray[np.bool_], suspects: list[int]) -> str:
    sure = f"at least {100 * (1.0 - run.result.sure.risk):g} %"
    if not known.any():
        return "There are no known labels that could be wrong."
    if not suspects:
        return f"No photo is answered with {sure} against its label, so no label looks wrong."
    expected = float((1.0 - run.arrays["probability"][known & _is_sure(run)]).sum())
    more = len(suspects) > expected
    row = suspects[0]
    answer, label = (run.graph.fine[int(run.arrays[name][row])] for name in ("predicted", "fine"))
    name = short_names(run.photos)[row]
    verb = "is" if len(suspects) == 1 else "are"
    which = "where its probabilities expect" if more else "no more than its probabilities expect:"
    return (
        f"{counted(len(suspects), 'photo')} {verb} answered with {sure} against the label, {which} {expected:.1f}; "
        f"a wrong label is most likely there, first of all {apart(name)}, labelled {apart(label)} and answered "
        f"{apart(answer)} with {percent(float(run.arrays['probability'][row]))}."
    )


def _to_photograph(run: RunResults, known: NDArray[np.bool_]) -> str:
    if not known.any():
        return "What to photograph next one cannot tell without known labels."
    training = run.about.get("training")
    mistakes = _mistakes(run, known)
    if training is None:
        if not mistakes.any():
            return "Nothing says what to photograph next: there is no mistake, and the training photos are not known."
        first = np.lexsort((np.arange(len(mistakes)), -mistakes))[:MAX_NAMED]
        named = [f"{apart(run.graph.fine[n])} ({counted(int(mistakes[n]), 'mistake')})" for n in first if mistakes[n]]
        return f"More photos of {listed(named)} would help most, by mistakes alone: the training photos are not known."
    photos = np.array(training["fine"], dtype=np.int64)
    if not mistakes.any():
        first = np.lexsort((np.arange(len(photos)), photos))[:MAX_NAMED]
        named = [f"{apart(run.graph.fine[n])} ({photos[n]:,})" for n in first]
        return f"There is no mistake to mend; the fewest training photos are those of {listed(named)}."
    gain = mistakes / (photos + 1.0)
    first = np.lexsort((np.arange(len(gain)), -gain))[:MAX_NAMED]
    named = [
        f"{apart(run.graph.fine[n])} ({counted(int(photos[n]), 'training photo')}, "
        f"{counted(int(mistakes[n]), 'mistake')})"
        for n in first
        if mistakes[n]
    ]
    return f"More photos of {listed(named)} would help most: many mistakes for so few training photos."


def _per_class(run: RunResults, known: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many photos each class has, and how many of them are right."""
    size = len(run.graph)
    count, right = (
        np.bincount(run.arrays["fine"][rows], minlength=size).astype(np.int64) for rows in (known, known & run.right)
    )
    return count, right


def _mistakes(run: RunResults, known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The mistakes that each class has a part in: its own photos, and those of others that are taken for it."""
    wrong, size = known & ~run.right, len(run.graph)
    true_counts, taken = (np.bincount(run.arrays[name][wrong], minlength=size) for name in ("fine", "predicted"))
    return (true_counts + taken).astype(np.int64)


def apart(name: str) -> str:
    """A name whose direction of writing does not reach beyond it."""
    return f"{_ISOLATE}{name}{_END}"


def without_marks(text: str) -> str:
    """A sentence without the marks around its names, for files and terminals."""
    return text.replace(_ISOLATE, "").replace(_END, "")


def listed(names: Sequence[str]) -> str:
    """Names as a list in a sentence.

    Example:
        >>> listed(["a", "b", "c"])
        'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def counted(number: int, noun: str, nouns: str = "") -> str:
    """A number with its noun."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def percent(share: float) -> str:
    """A share in percent.

    Example:
        >>> percent(0.8412)
        '84.1 %'
    """
    return f"{100 * share:.1f} %"


def percent_with_range(interval: MeanInterval) -> str:
    """A share in percent, with its interval in brackets."""
    return f"{percent(interval.mean)} ({100 * interval.low:.1f} to {percent(interval.high)})"
