"""Checks of the labels of samples, alone and against a graph. No photo is opened; linear in the samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from finegraph.data.checks.photo_findings import Finding
from finegraph.data.measured_values import measured_values
from finegraph.data.samples import Samples
from finegraph.errors import DataError
from finegraph.graph.faults import first_few
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.photo_labels import count_photo_labels
from finegraph.graph.spelling import Suggestions

_TRAINING = "train"


def label_findings(samples: Samples, counts: dict[str, dict[str, int]], graph: LabelGraph | None) -> Iterator[Finding]:
    """What is wrong or doubtful about the labels.

    Args:
        samples: the photos.
        counts: fine label -> split -> how many samples.
        graph: the labels to compare with, if any.
    """
    nameless = sum(sample.label is None for sample in samples)
    if nameless:
        message = f"{nameless} of {len(samples)} photos have no fine label"
        yield Finding(rule="no-label", severity="warning", message=message)
    if _TRAINING in samples.splits:
        unseen = [label for label, row in counts.items() if not row.get(_TRAINING)]
        if unseen:
            message = f"{_are(len(unseen), 'label')} without training photos: {first_few(unseen, len(unseen))}"
            yield Finding(rule="no-training-photos", severity="warning", message=message)
    if graph is not None:
        yield from _fine_findings(counts, graph)
        yield from _kind_findings(samples, graph)


def _fine_findings(counts: dict[str, dict[str, int]], graph: LabelGraph) -> Iterator[Finding]:
    """Fine labels that the graph does not have, and those that have no photo."""
    known = set(graph.fine)
    yield from _unknown("unknown-label", "fine label", {x: sum(row.values()) for x, row in counts.items()}, graph.fine)
    empty = [label for label in graph.fine if label not in counts]
    if empty:
        message = f"{_are(len(empty), 'label')} of the graph without photos: {first_few(empty, len(empty))}"
        nothing = len(empty) == len(known)
        hint = "this may be the graph of other data" if nothing else None
        yield Finding(rule="label-without-photos", severity="warning", message=message, hint=hint)


def _kind_findings(samples: Samples, graph: LabelGraph) -> Iterator[Finding]:
    """Kinds and their labels that the graph does not have, and photo labels that it excludes."""
    kinds = samples.kinds
    suggestions = Suggestions()
    yield from _value_findings(samples, graph)
    for kind in kinds:
        if kind not in graph.kinds and kind not in graph.numbers:
            hint = suggestions.hint(kind, graph.kinds)
            message = f"the graph has no kind {kind!r}; its labels on photos are not used"
            yield Finding(rule="unknown-kind", severity="warning", message=message, hint=hint)
    known = set(graph.fine)
    fine = [sample.label if sample.label in known else None for sample in samples]
    for kind in (kind for kind in kinds if kind in graph.kinds):
        labels = [sample.kinds.get(kind) for sample in samples]
        seen = Counter(label for label in labels if label is not None)
        names = graph.labels(kind)
        yield from _unknown("unknown-kind-label", f"label of kind {kind!r}", seen, names)
        usable = set(names)
        counts = count_photo_labels(graph, fine, {kind: [x if x in usable else None for x in labels]})
        for contradiction in graph.contradictions(counts):
            message = (
                f"{contradiction.count} of {contradiction.total} photos of {contradiction.fine!r} show "
                f"{contradiction.label!r}, "
                f"which the graph excludes for {contradiction.kind!r}"
            )
            hint = "mend the graph or the photos' labels, or let what photos show become weights of the graph"
            yield Finding(rule="contradiction", severity="warning", message=message, hint=hint)


def _value_findings(samples: Samples, graph: LabelGraph) -> Iterator[Finding]:
    """Measured values that no number of the graph can have, and numbers that the graph does not have."""
    for number in samples.numbers:
        if number not in graph.numbers:
            hint = Suggestions().hint(number, graph.numbers)
            message = f"the graph has no number {number!r}; its values on photos are not used"
            yield Finding(rule="unknown-number", severity="warning", message=message, hint=hint)
    try:
        measured_values(samples, graph)
    except DataError as error:
        yield Finding(rule="bad-value", severity="error", message=str(error))


def _unknown(rule: str, what: str, seen: dict[str, int], names: Collection[str]) -> Iterator[Finding]:
    """Labels that occur on photos but not in the graph."""
    known = set(names)
    suggestions = Suggestions()
    for label, number in seen.items():
        if label not in known:
            photos = f"{number} photo{'s' if number != 1 else ''}"
            message = f"the graph has no {what} {label!r}, which {photos} {'have' if number != 1 else 'has'}"
            yield Finding(rule=rule, severity="error", message=message, hint=suggestions.hint(label, names))


def _are(number: int, noun: str) -> str:
    """How many there are: `there is 1 label`, `there are 3 labels`."""
    return f"there is 1 {noun}" if number == 1 else f"there are {number} {noun}s"
