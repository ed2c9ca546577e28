"""Evidence: what is known beside the photo, as log likelihoods that are added to scores.

Every form of evidence becomes one log likelihood per label, added to the coarse scores of its kind. Hard evidence rules
labels out (minus infinity), soft evidence only favours some, and no evidence is 0 everywhere. Adding it and normalising
again is exact conditioning, in time linear in the graph.

The prior probability of the evidence follows from the same numbers. With r^j_ic the probability of label c of kind j
given fine label i, and l the likelihoods (1 and 0 for hard evidence):

    P(evidence)  =  sum_i p_i l_i prod_j sum_c r^j_ic l^j_c

Given the fine label, the kinds are independent, so this is exactly the sum over all states of the joint. Likelihoods
are relative to the largest of their kind, since a common factor has no meaning: equal likelihoods of two labels are
the same as "one of the two". Cost: one pass over the edges of the kinds with evidence.

Evidence on a number is not a likelihood per label but four numbers (see `numbers/known_values.py`). Given the fine
label, the value is independent of all kinds too, so its likelihood is one more factor in the same sum.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.errors import EvidenceError, ShapeError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.inference.numbers.known_values import Around, Known, known_values
from finegraph.inference.sums.graph_tensors import GraphTensors

_LIMIT = re.compile(r"(<=|>=|<|>|≤|≥)\s*(.+)")

FINE = "fine"
"""The name for evidence on the fine label itself; no kind may have this name."""


def merged_evidence(evidence: Mapping[str, object] | None, kinds: Mapping[str, object]) -> dict[str, object]:
    """Merge evidence from a mapping with evidence from keyword arguments."""
    if evidence and (duplicates := set(evidence) & set(kinds)):
        raise EvidenceError(f"evidence on {sorted(duplicates)[0]!r} is given twice")
    return {**(evidence or {}), **kinds}


class Evidence(NamedTuple):
    """Evidence as tensors.

    Attributes:
        likelihoods: per kind, or for `"fine"`, log likelihoods in float64: one row, or one per sample.
        numbers: the evidence on each number, in float64; None if there is none.
    """

    likelihoods: dict[str, Float[Tensor, "_ _"]]
    numbers: Float[Tensor, "batch number 4"] | None


def evidence_tensors(graph: LabelGraph, evidence: Mapping[str, object], batch: int) -> Evidence:
    """Convert evidence on kinds, numbers and the fine label to tensors.

    Args:
        graph: the label graph.
        evidence: as for `Posterior.given`.
        batch: the number of samples.
    """
    likelihoods, known = {}, {}
    for name, value in evidence.items():
        if name in graph.numbers:
            known[name] = known_values(graph.number(name), value, batch)
        elif name == FINE or name in graph.kinds:
            likelihoods[name] = log_likelihood(graph, name, value, batch)
        else:
            raise unknown_name("kind", name, (*graph.kinds, *graph.numbers))
    if not known:
        return Evidence(likelihoods, None)
    no_evidence = torch.tensor([Known()], dtype=torch.float64)
    rows = [known.get(name, no_evidence).expand(batch, -1) for name in graph.numbers]
    return Evidence(likelihoods, torch.stack(rows, dim=1))


def log_likelihood(graph: LabelGraph, kind: str, value: object, batch: int) -> Float[Tensor, "_ label"]:
    """The evidence on one kind as log likelihoods in float64: one row, or one per sample.

    Args:
        graph: the label graph.
        kind: a kind, or `"fine"` for the fine label itself.
        value: a label; a set of labels, meaning one of them; a mapping label -> likelihood (labels left out are ruled
            out); a range of an ordered kind, such as ">= medium" or "mild to hot"; a tensor or array of likelihoods,
            (labels) or (batch, labels); None if nothing is known; or a sequence with one of these per sample.
        batch: the number of samples.
    """
    labels = graph.fine if kind == FINE else graph.labels(kind)
    ordered = kind != FINE and graph.kind(kind).ordered
    index: Callable[..., int] = graph.fine_index if kind == FINE else partial(graph.label_index, kind)

    def known(entry: object) -> object:
        if ordered:
            return _range(labels, entry)
        _refuse_range(kind, labels, entry)
        return entry

    if isinstance(value, np.ndarray) and value.dtype.kind in "OUS":
        value = value.tolist()
    if isinstance(value, Tensor | np.ndarray):
        return _from_array(kind, value, batch, len(labels))
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != batch:
            raise EvidenceError(
                f"evidence on {kind!r}: a sequence gives one value per sample, expected {batch}, got {len(value)}; "
                "use a set for one of several labels"
            )
        rows = [_one_sample(kind, known(entry), labels, index) for entry in value]
        return torch.stack(rows) if rows else torch.zeros(0, len(labels), dtype=torch.float64)
    return _one_sample(kind, known(value), labels, index).unsqueeze(0)


def _range(labels: Sequence[str], value: object) -> object:
    """The labels of a range of an ordered kind, such as ">= medium"; any other value is returned unchanged."""
    if not isinstance(value, str) or value in labels:
        return value
    if match := _LIMIT.fullmatch(value.strip()):
        sign, label = match[1].replace("≤", "<=").replace("≥", ">="), match[2]
        if label not in labels:
            return label  # the caller then reports the unknown label by its name
        place = labels.index(label)
        parts = {"<=": labels[: place + 1], "<": labels[:place], ">=": labels[place:], ">": labels[place + 1 :]}
        return frozenset(parts[sign])
    ends = _range_ends(labels, value)
    return value if ends is None else frozenset(labels[ends[0] : ends[1] + 1])


def _refuse_range(kind: str, labels: Sequence[str], value: object) -> None:
    """Raise for a limit or a range of labels that have no order; a label may look like one."""
    if not isinstance(value, str) or value in labels:
        return
    limit = _LIMIT.fullmatch(value.strip())
    if limit is None and _range_ends(labels, value) is None:
        return
    what = "a limit" if limit else "a range"
    if kind == FINE:
        raise EvidenceError(f"evidence on {kind!r}: {value!r} is {what}, but fine labels have no order; name a label")
    raise EvidenceError(
        f"evidence on {kind!r}: {value!r} is {what}, but the labels of {kind!r} have no order; name a label, or give "
        "them one: in a graph file by a header such as 'heat [mild < medium < hot]', in Python by "
        "types={'heat': ('mild', 'medium', 'hot')} of LabelGraph.from_table"
    )


def is_label_range(labels: Sequence[str], text: str) -> bool:
    """Whether a text is a range of these labels, such as "mild to medium" or "mild..medium", and no label itself."""
    return text not in labels and _range_ends(labels, text) is not None


def _range_ends(labels: Sequence[str], text: str) -> tuple[int, int] | None:
    """The places of the two labels of a range; None if the text is no range."""
    for mark in (" to ", ".."):
        low, found, high = (part.strip() for part in text.partition(mark))
        if found and low in labels and high in labels:
            return labels.index(low), labels.index(high)
    return None


def evidence_log_prob(
    tensors: GraphTensors,
    fine: Float[Tensor, "batch fine"],
    scores: Float[Tensor, "batch coarse"] | None,
    likelihoods: Mapping[str, Float[Tensor, "_ _"]],
    numbers: Float[Tensor, "batch fine"] | None = None,
) -> Float[Tensor, " batch"]:
    """The log probability of evidence, in float64; minus infinity where it is impossible.

    Args:
        tensors: the tensors of the graph.
        fine: the log probabilities of the fine labels.
        scores: the coarse scores; None if all are 0.
        likelihoods: per kind, or for `"fine"`, log likelihoods of shape (1 or batch, label).
        numbers: the log likelihood of the evidence on all numbers, given each fine label; None without such evidence.
    """
    terms = fine.double() if numbers is None else fine.double() + numbers
    for name, likelihood in likelihoods.items():
        relative = (likelihood - likelihood.amax(dim=1, keepdim=True)).to(fine.device)
        if name == FINE:
            terms = terms + relative
            continue
        kind = tensors.kind(name)
        own = relative.new_zeros(1, kind.label_count) if scores is None else scores[:, kind.columns].double()
        terms = terms + kind.group_likelihoods(relative, own).index_select(1, kind.group)
    # Rounding may bring a sum of probabilities above 1.
    return torch.logsumexp(terms, dim=1).clamp_max(0.0)


def evidence_in_words(evidence: Mapping[str, object]) -> str:
    """Evidence as short text for a message."""
    parts = []
    for name, value in evidence.items():
        text = (
            repr(value)
            if isinstance(value, str | bool | set | frozenset | tuple | int | float | Around)
            else f"a {type(value).__name__}"
        )
        parts.append(f"{name} is {text[:60]}")
    return ", ".join(parts)


def _one_sample(kind: str, value: object, labels: Sequence[str], index: Callable[..., int]) -> Float[Tensor, " label"]:
    """The evidence on one sample."""
    if value is None:
        return torch.zeros(len(labels), dtype=torch.float64)
    if isinstance(value, Tensor | np.ndarray):
        return _from_array(kind, value, 1, len(labels))[0]
    likelihood = torch.zeros(len(labels), dtype=torch.float64)
    if isinstance(value, Mapping):
        for label, number in value.items():
            likelihood[index(label)] = _checked_likelihood(kind, label, number)
    elif isinstance(value, AbstractSet):
        for label in value:
            likelihood[index(label)] = 1.0
    elif isinstance(value, str | bool):
        likelihood[index(value)] = 1.0
    else:
        raise EvidenceError(
            f"evidence on {kind!r}: expected a label, a set of labels, a mapping of likelihoods or None, "
            f"got {type(value).__name__}"
        )
    if not likelihood.any():
        raise EvidenceError(f"evidence on {kind!r} rules out every label; leave it out where nothing is known")
    return likelihood.log()


def _checked_likelihood(kind: str, label: object, number: object) -> float:
    """A likelihood as a float, checked to be finite and at least 0."""
    try:
        likelihood = float(number)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        likelihood = float("nan")
    if not 0.0 <= likelihood < float("inf"):
        raise EvidenceError(
            f"evidence on {kind!r}: the likelihood of {label!r} must be a finite number of at least 0, got {number!r}"
        )
    return likelihood


def _from_array(kind: str, value: object, batch: int, count: int) -> Float[Tensor, "_ label"]:
    """Likelihoods given as a tensor or an array."""
    given = torch.as_tensor(value).detach()
    if not given.dtype.is_floating_point:
        raise EvidenceError(
            f"evidence on {kind!r}: numbers are likelihoods, one per label, and must be floating-point, got "
            f"{given.dtype}; name the labels themselves to say which one it is"
        )
    likelihood = given.double().cpu()
    if likelihood.shape not in ((count,), (batch, count)):
        raise ShapeError(
            f"evidence on {kind!r}: expected likelihoods of shape ({count},) or ({batch}, {count}), "
            f"got {tuple(likelihood.shape)}"
        )
    likelihood = likelihood.reshape(-1, count)
    if not bool((torch.isfinite(likelihood) & (likelihood >= 0)).all()):
        raise EvidenceError(f"evidence on {kind!r}: likelihoods must be finite numbers of at least 0")
    if not bool((likelihood > 0).any(dim=1).all()):
        raise EvidenceError(f"evidence on {kind!r} rules out every label; leave it out where nothing is known")
    return likelihood.log()
