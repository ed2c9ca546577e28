"""The exact posterior over the fine labels and all their coarse labels.

The set: a fine label i and one coarse label c_j per kind j. The factorisation, from scores f of fine and f^j of coarse
labels and the weights g^j of the graph:

    p(i, c_1, ..., c_m)  =  exp(f_i) prod_j g^j[i, c_j] exp(f^j[c_j]) / z
    s_i                  =  f_i + sum_j log sum_c g^j[i, c] exp(f^j[c])        so  p_i = softmax(s)_i

A number of the graph, such as a price, is summed out in the same way (`numbers/potential.py`) and adds to s_i too.
Every question below is answered exactly from s, in log space and in time linear in the number of edges: the labels of
a kind, evidence of any form, the sure answer, explanations, samples. Nothing is approximated or clamped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils import _pytree as pytree

from finegraph.errors import EvidenceError, InputError, ShapeError
from finegraph.graph import LabelGraph
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.graph.graph_files import graph_from_json
from finegraph.inference.answers import (
    Answer,
    Effects,
    Question,
    Statement,
    best_questions,
    expected_effects,
    rounding_of,
    sure_statements,
)
from finegraph.inference.evidence import evidence_in_words, evidence_log_prob, evidence_tensors, merged_evidence
from finegraph.inference.explanations import Explanation, PosteriorParts, explain
from finegraph.inference.numbers.known_values import both_known
from finegraph.inference.numbers.number_tensors import NumberTensors
from finegraph.inference.numbers.potential import (
    Components,
    add_number_terms,
    components_of,
    evidence_log_likelihood,
)
from finegraph.inference.numbers.thresholds import ThresholdEffects, Thresholds, threshold_effects
from finegraph.inference.numbers.value_distribution import ValueDistribution
from finegraph.inference.numerics import MAX_TOGETHER, SAMPLE, at_least_float32, refuse_nan, shared_constants
from finegraph.inference.sums.graph_tensors import GraphTensors, Marginals, coarse_log_probs, graph_tensors
from finegraph.inference.sums.groups import KindTensors

MAX_STATES = 1_000_000
"""The largest number of states that `enumerate_joint` lists."""


class JointScores(NamedTuple):
    """The joint scores of a batch: in float32, or in float64 if there are very many kinds."""

    scores: Float[Tensor, "batch fine"]


class JointSample(NamedTuple):
    """Samples of the whole joint: label indices of shape (draws, batch), per kind and for the fine label."""

    fine: Int[Tensor, "draw batch"]
    kinds: dict[str, Int[Tensor, "draw batch"]]


class JointTable(NamedTuple):
    """The whole joint of a small graph, state by state.

    Attributes:
        fine: (state) the index of the fine label.
        kinds: per kind, (state) the index of the coarse label.
        log_probs: (batch, state).
    """

    fine: Int[Tensor, " state"]
    kinds: dict[str, Int[Tensor, " state"]]
    log_probs: Float[Tensor, "batch state"]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Posterior:
    """The joint distribution of fine and coarse labels of a batch of samples.

    Heads return one. It can also be built from scores directly; kinds that are left out have no scores of their own,
    as in plain softmax, and their marginals follow from the fine labels.

    Example:
        >>> graph = LabelGraph.from_table({
        ...     "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A"},
        ...     "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B"},
        ...     "kung pao @ B": {"dish": "kung pao", "restaurant": "B"},
        ... })
        >>> posterior = Posterior(graph, torch.tensor([[2.0, 1.0, 0.0]]))
        >>> [f"{label} {probability:.2f}" for label, probability in posterior.top(2, "dish")[0]]
        ['mapo tofu 0.91', 'kung pao 0.09']
        >>> [f"{label} {probability:.2f}" for label, probability in posterior.given(restaurant="B").top(2)[0]]
        ['mapo tofu @ B 0.73', 'kung pao @ B 0.27']
    """

    graph: LabelGraph
    fine_scores: Float[Tensor, "batch fine"]
    coarse_scores: Float[Tensor, "batch coarse"] | None
    evidence: Float[Tensor, "batch fine_and_coarse"] | None
    number_scores: Float[Tensor, "batch number 2"] | None
    number_evidence: Float[Tensor, "batch number 4"] | None
    tensors: GraphTensors

    def __init__(
        self,
        graph: LabelGraph,
        fine_scores: Float[Tensor, "batch fine"],
        coarse_scores: Mapping[str, Float[Tensor, "batch _"]] | Float[Tensor, "batch coarse"] | None = None,
        *,
        evidence: Float[Tensor, "batch fine_and_coarse"] | None = None,
        number_scores: Float[Tensor, "batch number 2"] | Mapping[str, Float[Tensor, "batch 2"]] | None = None,
        number_evidence: Float[Tensor, "batch number 4"] | None = None,
        tensors: GraphTensors | None = None,
    ) -> None:
        """Build a posterior from scores.

        Args:
            graph: the label graph.
            fine_scores: one score per fine label.
            coarse_scores: per kind, one score per label; or all kinds side by side in the order of the graph.
            evidence: log likelihoods of the fine labels and then of all coarse labels; `given` makes them.
            number_scores: per number, a pull and a precision of at least 0 on its inner scale; or those of all numbers
                in the order of the graph. Numbers that are left out follow from the fine labels.
            number_evidence: the evidence on all numbers; `given` makes it.
            tensors: the graph's tensors, if already made.
        """
        if not isinstance(fine_scores, Tensor):
            raise InputError(f"fine scores: expected a tensor, got {type(fine_scores).__name__}")
        if fine_scores.ndim != 2 or fine_scores.shape[1] != len(graph):
            raise ShapeError(
                f"fine scores: expected shape (batch, {len(graph)}), one column per fine label, "
                f"got {tuple(fine_scores.shape)}"
            )
        if not fine_scores.dtype.is_floating_point:
            raise InputError(f"fine scores: expected floating-point numbers, got {fine_scores.dtype}")
        tensors = tensors if tensors is not None else graph_tensors(graph, fine_scores.device)
        if isinstance(coarse_scores, Mapping):
            coarse_scores = _side_by_side(graph, fine_scores, coarse_scores)
        elif coarse_scores is not None and coarse_scores.shape != (fine_scores.shape[0], tensors.coarse_count):
            raise ShapeError(
                f"coarse scores: expected shape ({fine_scores.shape[0]}, {tensors.coarse_count}), all side by side, "
                f"got {tuple(coarse_scores.shape)}"
            )
        if isinstance(number_scores, Mapping):
            number_scores = _numbers_side_by_side(graph, fine_scores, number_scores)
        elif number_scores is not None and number_scores.shape != (fine_scores.shape[0], len(graph.numbers), 2):
            raise ShapeError(
                f"number scores: expected shape ({len(fine_scores)}, {len(graph.numbers)}, 2), a pull and a precision "
                f"per number, got {tuple(number_scores.shape)}"
            )
        for name, value in {
            "graph": graph,
            "fine_scores": fine_scores,
            "coarse_scores": coarse_scores,
            "evidence": evidence,
            "number_scores": number_scores,
            "number_evidence": number_evidence,
            "tensors": tensors,
        }.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.fine_scores)

    def __repr__(self) -> str:
        given = ", with evidence" if self.evidence is not None or self.number_evidence is not None else ""
        numbers = f", {len(self.graph.numbers)} numbers" if self.graph.numbers else ""
        kinds = f"{len(self.graph.kinds)} kinds"
        return f"Posterior({len(self)} samples, {len(self.graph)} fine labels, {kinds}{numbers}{given})"

    # ---- scores -----------------------------------------------------------------------------------------------------

    def joint_scores(self) -> JointScores:
        """The joint scores s, up to a constant per sample; `softmax(s)` are the fine probabilities."""
        return JointScores(self.tensors.joint_scores(*self.scores_with_evidence()))

    def scores_with_evidence(
        self, numbers: bool = True
    ) -> tuple[Float[Tensor, "batch fine"], Float[Tensor, "batch coarse"] | None]:
        """The fine scores with the terms of numbers and evidence, and the coarse ones with evidence; None if all 0.

        Args:
            numbers: whether to add the terms of numbers.
        """
        return self._fine_with_evidence(numbers), self._coarse_with_evidence()

    def _fine_with_evidence(self, numbers: bool) -> Float[Tensor, "batch fine"]:
        scores = self.fine_scores
        if self.evidence is not None:
            scores = at_least_float32(scores)
            scores = scores + self.evidence[:, : len(self.graph)].to(scores.dtype)
        if not numbers or (self.number_scores is None and self.number_evidence is None):
            return scores
        table = self.tensors.numbers
        return add_number_terms(table, scores, self.number_scores, self.number_evidence, self._known_components())

    def _known_components(self) -> list[Components] | None:
        """The components of all numbers given the evidence on these, kept for several answers.

        None if there is no such evidence, if they need a gradient, or if there are too many to keep.
        """
        # Asked before the cache, since a compiled program cannot hold the lock of a cached property.
        if torch.compiler.is_compiling() or self.number_evidence is None:
            return None
        if self.number_scores is not None and self.number_scores.requires_grad:
            return None
        if len(self) * sum(number.count for number in self.tensors.numbers.numbers) > MAX_TOGETHER:
            return None
        return self._components_given_evidence

    @cached_property
    def _components_given_evidence(self) -> list[Components]:
        with torch.inference_mode(False):  # what is kept may be used with gradients later
            numbers = self.tensors.numbers.numbers
            return [components_of(number, self.number_scores, self.number_evidence) for number in numbers]

    def _coarse_with_evidence(self) -> Float[Tensor, "batch coarse"] | None:
        if self.evidence is None:
            return self.coarse_scores
        scores = at_least_float32(self.fine_scores if self.coarse_scores is None else self.coarse_scores)
        evidence = self.evidence[:, len(self.graph) :].to(scores.dtype)
        return evidence if self.coarse_scores is None else scores + evidence

    def _label_scores(self, kind: KindTensors) -> Float[Tensor, "batch label"]:
        """The scores of the labels of a kind, with the evidence."""
        scores = self._coarse_with_evidence()
        if scores is None:
            return at_least_float32(self.fine_scores).new_zeros(len(self), kind.label_count)
        return at_least_float32(scores[:, kind.columns])

    # ---- probabilities ----------------------------------------------------------------------------------------------

    def log_probs(self, kind: str | None = None) -> Float[Tensor, "batch label"]:
        """The log probabilities of the fine labels, or of the labels of a kind; in float32 or wider."""
        fine = torch.log_softmax(self.joint_scores().scores, dim=1)
        return fine if kind is None else self.kind_log_probs(kind, fine)

    def kind_log_probs(self, kind: str, fine: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch label"]:
        """`log_probs(kind)` from the log probabilities of the fine labels, if already computed."""
        tensors = self.tensors.kind(kind)
        scores = self._coarse_with_evidence()
        own = None if scores is None else at_least_float32(scores[:, tensors.columns]).to(fine.dtype)
        return tensors.label_log_probs(tensors.members.logsumexp(fine), own)

    def marginals(self, name_of: Callable[[int], str] = SAMPLE) -> Marginals:
        """The log probabilities of all labels at once: the fine ones, and those of all kinds side by side.

        The fastest way to get many kinds. There is no gradient.

        Args:
            name_of: the name of a sample in messages.

        Raises:
            InputError: the scores of a sample are NaN or infinite.
        """
        with torch.no_grad():
            fine = self.log_probs()
            refuse_nan(fine, name_of)
            scores = self._coarse_with_evidence()
            scores = None if scores is None else at_least_float32(scores)
            return Marginals(fine, coarse_log_probs(self.graph, fine, scores))

    def unknown_share(self, kind: str) -> Float[Tensor, "batch label"]:
        """How much of the probability of each label of a kind rests on unknown cells, from 0 to 1.

        A fine label with an unknown parent may have any label of the kind, so it adds to all of them by their prior. A
        share near 1 means that the graph knows little about the label: fill these cells first. It is 0 for impossible
        labels.
        """
        tensors = self.tensors.kind(kind)
        fine = self.log_probs()
        whole = self.kind_log_probs(kind, fine)
        part = self.kind_log_probs(kind, fine.masked_fill(~tensors.unknown, -torch.inf))
        return (part - whole.masked_fill(whole.isneginf(), 0.0)).exp().clamp_max(1.0)

    def probs(self, kind: str | None = None) -> Float[Tensor, "batch label"]:
        """The probabilities of the fine labels, or of the labels of a kind."""
        return self.log_probs(kind).exp()

    def entropy(self, kind: str | None = None) -> Float[Tensor, " batch"]:
        """The entropy, in nats, of the fine label, or of the label of a kind."""
        log_probs = self.log_probs(kind)
        return -(log_probs.exp() * log_probs.masked_fill(log_probs.isneginf(), 0.0)).sum(dim=1)

    def value(self, number: str, log_probs: Float[Tensor, "batch fine"] | None = None) -> ValueDistribution:
        """The distribution of the value of a number: mean, spread, quantiles and intervals, in the user's unit.

        Args:
            number: the name of the number.
            log_probs: the log probabilities of the fine labels, if already computed.
        """
        self.graph.number(number)  # raises if the name is unknown
        return self._value(self.tensors.numbers.number(number), self.log_probs() if log_probs is None else log_probs)

    def _value(self, number: NumberTensors, fine: Float[Tensor, "batch fine"]) -> ValueDistribution:
        """The distribution of a number, from the log probabilities of the fine labels."""
        known = self._known_components()
        if known is None:
            components = components_of(number, self.number_scores, self.number_evidence)
        else:
            components = known[number.place]
        weights = number.to_components(fine.double().exp())
        return ValueDistribution(number.number, weights / weights.sum(dim=1, keepdim=True), components)

    # ---- evidence ---------------------------------------------------------------------------------------------------

    def given(self, evidence: Mapping[str, object] | None = None, /, **kinds: object) -> Posterior:
        """The posterior after learning something, by exact conditioning.

        Args:
            evidence: per kind (or `"fine"`, for the fine label itself) a label; a set, meaning one of its labels; a
                mapping or tensor of likelihoods (soft evidence); a range of an ordered kind, such as `">= medium"`;
                None if nothing is known; or a list with one of these per sample. Per number a limit `"<= 15"`, an
                interval `(10, 15)`, `Around(12, 2)`, a value, None, or a list with one of these per sample.
            **kinds: the same, for kinds and numbers whose names are Python names.
        """
        merged = merged_evidence(evidence, kinds)
        likelihoods, numbers = evidence_tensors(self.graph, merged, len(self))
        if numbers is not None:
            numbers = numbers.to(self.fine_scores.device)
        result = self.with_evidence(
            self._side_by_side(likelihoods) if likelihoods or numbers is None else None, numbers
        )
        impossible = result.joint_scores().scores.detach().amax(dim=1).isneginf()
        if bool(impossible.any()):
            sample, words = int(impossible.nonzero()[0]), evidence_in_words(merged)
            raise EvidenceError(
                f"the evidence has probability 0 for sample {sample} ({words}): "
                "no fine label of the graph agrees with it; correct the evidence, or the graph"
            )
        return result

    def _side_by_side(self, likelihoods: Mapping[str, Tensor]) -> Float[Tensor, "batch fine_and_coarse"]:
        """Log likelihoods of the fine labels and of the labels of all kinds; 0 where there is no evidence."""
        fine_count = len(self.graph)
        combined = torch.zeros(len(self), fine_count + self.tensors.coarse_count, dtype=torch.float64)
        for name, value in likelihoods.items():
            # Coarse columns are counted from the first coarse label, so the fine labels start at minus their number.
            columns = self.tensors.columns.get(name, slice(-fine_count, 0))
            combined[:, fine_count + columns.start : fine_count + columns.stop] = value
        return combined.to(self.fine_scores.device)

    def with_evidence(
        self,
        evidence: Float[Tensor, "batch fine_and_coarse"] | None,
        numbers: Float[Tensor, "batch number 4"] | None = None,
    ) -> Posterior:
        """The posterior with more evidence, as tensors and unchecked; `given` takes evidence by name."""
        if evidence is not None and self.evidence is not None:
            evidence = evidence + self.evidence
        if numbers is not None and self.number_evidence is not None:
            numbers = both_known(self.number_evidence, numbers)
        return Posterior(
            self.graph,
            self.fine_scores,
            self.coarse_scores,
            evidence=self.evidence if evidence is None else evidence,
            number_scores=self.number_scores,
            number_evidence=self.number_evidence if numbers is None else numbers,
            tensors=self.tensors,
        )

    def log_prob_of(self, evidence: Mapping[str, object] | None = None, /, **kinds: object) -> Float[Tensor, " batch"]:
        """The log probability of evidence before it is taken into account, in float64; minus infinity if impossible.

        Evidence that contradicts the photo is improbable. Evidence on several kinds is one statement, that all of it
        holds, with its joint probability. After `given` the probability is conditional:
        `p.log_prob_of(a) + p.given(a).log_prob_of(b)` is the log probability of both.

        Args:
            evidence: as for `given`. The probability of soft evidence is its mean likelihood, relative to the largest
                one of the kind, so that a common factor changes nothing. The likelihood of `Around` is 1 at its value.
                None has probability 1.
            **kinds: the same, for kinds whose names are Python names.
        """
        merged = merged_evidence(evidence, kinds)
        likelihoods, numbers = evidence_tensors(self.graph, merged, len(self))
        number_terms = None
        if numbers is not None:
            table, known = self.tensors.numbers, numbers.to(self.fine_scores.device)
            number_terms = evidence_log_likelihood(table, self.number_scores, self.number_evidence, known)
        scores = self._coarse_with_evidence()
        return evidence_log_prob(self.tensors, self.log_probs(), scores, likelihoods, number_terms)

    # ---- answers ----------------------------------------------------------------------------------------------------

    def top(self, count: int = 5, kind: str | None = None) -> list[list[Answer]]:
        """For each sample, the most probable fine labels, or labels of a kind, best first."""
        labels = self._labels(kind)
        if count < 1:
            raise InputError(f"top: expected a count of at least 1, got {count}")
        log_probs = self.log_probs(kind).detach()
        refuse_nan(log_probs)
        values, index = log_probs.exp().topk(min(count, len(labels)), dim=1)
        pairs = zip(values.tolist(), index.tolist(), strict=True)
        return [[Answer(labels[i], p) for p, i in zip(*row, strict=True)] for row in pairs]

    def answer(
        self,
        risk: float = 0.05,
        marginals: Marginals | None = None,
        values: Sequence[ValueDistribution] | None = None,
    ) -> list[Statement | None]:
        """For each sample, the most specific statement whose probability is at least 1 - risk, or None.

        Statements are "it is this fine label", "it has this label of a kind", "it has one of these labels of an ordered
        kind" and "its value is in this interval". A statement is more specific if fewer of the fine labels that
        evidence leaves are compatible with it. Ties go to the more probable one.

        Args:
            risk: how often a statement may be wrong.
            marginals: the marginals of this posterior, if already computed.
            values: the distributions of its numbers, if already computed.
        """
        _check_risk("answer", risk)
        marginals = self.marginals() if marginals is None else marginals
        evidence = self.evidence is not None or self.number_evidence is not None
        if values is None:
            values = [self._value(number, marginals.fine) for number in self.tensors.numbers.numbers]
        return sure_statements(self.tensors, marginals, values, risk, evidence=evidence)

    def questions(self, count: int = 3, risk: float = 0.05) -> list[list[Question]]:
        """For each sample, what to ask next: the kinds and numbers that say most about the fine label, best first.

        The answer to the first question lowers the entropy of the fine label most, on average. A question about a kind
        asks for its label, one about a number whether it is above a round value. Kinds that are already known, or that
        say nothing about the fine label, are not listed.

        Args:
            count: the maximum number of questions per sample.
            risk: how often a settled answer may be wrong.
        """
        effects = self.expected_effects(risk)
        return best_questions(self.tensors, effects, count)

    def expected_effects(self, risk: float = 0.05) -> Effects:
        """The expected effects of knowing each kind and then each number, as tensors without a gradient."""
        _check_risk("questions", risk)
        with torch.no_grad():
            scores = self.joint_scores().scores
            fine = torch.log_softmax(scores.double(), dim=1)
            refuse_nan(fine)
            slack = risk + rounding_of(scores.dtype)
            effects = expected_effects(self.tensors, fine, self._coarse_with_evidence(), slack)
            return effects.with_numbers(
                [self._threshold_effects(one, fine, slack) for one in self.tensors.numbers.numbers]
            )

    def _threshold_effects(
        self, number: NumberTensors, fine: Float[Tensor, "batch fine"], risk: float
    ) -> ThresholdEffects:
        """The most informative threshold of a number; the fine log probabilities are in float64."""
        thresholds = shared_constants(Thresholds, self.graph, fine.device)
        value = self._value(number, fine)
        best = number.largest_of_components(fine.exp())
        return threshold_effects(thresholds, number, value.weights, best, value.components, risk)

    def _labels(self, kind: str | None) -> tuple[str, ...]:
        return self.graph.fine if kind is None else self.graph.labels(kind)

    def explain(self, first: str | Sequence[str], second: str | Sequence[str]) -> list[Explanation]:
        """Why fine label `first` rather than `second`, by kind and number; each is one label, or one per sample."""
        indices = self._fine_indices("first", first), self._fine_indices("second", second)
        with torch.no_grad():
            shape = len(self), self.tensors.coarse_count
            coarse = self.fine_scores.new_zeros(shape) if self.coarse_scores is None else self.coarse_scores
            log_probs, fine, coarse = (part.double().cpu() for part in (self.log_probs(), self.fine_scores, coarse))
            evidence = None if self.evidence is None else self.evidence.double().cpu()
            known = None if self.number_evidence is None else self.number_evidence.double().cpu()
            numbers = torch.zeros(len(self), len(self.graph.numbers), 2, dtype=torch.float64)
            if self.number_scores is not None:
                numbers = self.number_scores.double().cpu()
        return explain(self.graph, PosteriorParts(log_probs, fine, coarse, evidence, numbers, known), *indices)

    def _fine_indices(self, what: str, labels: str | Sequence[str]) -> list[int]:
        names = [labels] * len(self) if isinstance(labels, str) else list(labels)
        if len(names) != len(self):
            raise ShapeError(
                f"explain: {what} names {len(names)} fine labels for {len(self)} samples; give one, or one each"
            )
        return [self.graph.fine_index(name) for name in names]

    # ---- the whole joint --------------------------------------------------------------------------------------------

    def sample(self, draws: int = 1, generator: torch.Generator | None = None) -> JointSample:
        """Draw fine labels together with one label of every kind."""
        if draws < 1:
            raise InputError(f"sample: expected at least 1 draw, got {draws}")
        with torch.no_grad():
            probs = self.probs()
            refuse_nan(probs)
            fine = torch.multinomial(probs, draws, replacement=True, generator=generator).t()
            kinds = {
                kind.name: kind.sample_labels(kind.group[fine], self._label_scores(kind), generator)
                for kind in self.tensors.kinds
            }
        return JointSample(fine, kinds)

    def enumerate_joint(self) -> JointTable:
        """Every state of the joint with its log probability; for small graphs."""
        with torch.no_grad():
            states = torch.arange(len(self.graph), device=self.fine_scores.device).unsqueeze(1)
            log_probs = self.log_probs()
            for kind in self.tensors.kinds:
                row, label, given = kind.choices(states[:, 0], self._label_scores(kind))
                if len(row) > MAX_STATES:
                    raise InputError(f"the joint has over {MAX_STATES:,} states, too many to list; ask for marginals")
                states = torch.cat([states[row], label.unsqueeze(1)], dim=1)
                log_probs = log_probs.index_select(1, row) + given
        columns = states.t()
        return JointTable(columns[0], dict(zip(self.graph.kinds, columns[1:], strict=True)), log_probs)

    def some(self, rows: Sequence[int], evidence: Float[Tensor, "row fine_and_coarse"] | None = None) -> Posterior:
        """The posterior of some of the samples.

        Args:
            rows: the indices of the samples.
            evidence: further log likelihoods to condition these samples on; `given` takes evidence by name.
        """
        index = torch.tensor(rows, dtype=torch.int64, device=self.fine_scores.device)
        parts = (self.coarse_scores, self.evidence, self.number_scores, self.number_evidence)
        coarse, own, scores, known = (None if part is None else part[index] for part in parts)
        chosen = Posterior(
            self.graph,
            self.fine_scores[index],
            coarse,
            evidence=own,
            number_scores=scores,
            number_evidence=known,
            tensors=self.tensors,
        )
        return chosen if evidence is None else chosen.with_evidence(evidence.to(index.device))

    def tempered(self, temperature: float) -> Posterior:
        """The posterior with all scores divided by a temperature: less certain above 1, more certain below.

        The order of the fine labels stays if every row has one parent per kind and all values of numbers are exact.
        Evidence is not tempered.
        """
        if not 0.0 < temperature < float("inf"):
            raise InputError(f"temperature: expected a finite number above 0, got {temperature!r}")
        coarse = None if self.coarse_scores is None else at_least_float32(self.coarse_scores) / temperature
        fine = at_least_float32(self.fine_scores) / temperature
        return Posterior(
            self.graph,
            fine,
            coarse,
            evidence=self.evidence,
            number_scores=None if self.number_scores is None else at_least_float32(self.number_scores) / temperature,
            number_evidence=self.number_evidence,
            tensors=self.tensors,
        )

    def doubted(self, doubt: float) -> Posterior:
        """The posterior with all scores of a sample divided by sqrt(1 + doubt * lead).

        The lead is how far the largest joint score is above the mean one. A score difference whose variance grows with
        it is moderated so: the larger the lead, the less it is believed in full. As with `tempered`, the order of the
        fine labels stays where every row has one parent per kind and all values of numbers are exact.

        Args:
            doubt: at least 0, which changes nothing.
        """
        if not 0.0 <= doubt < float("inf"):
            raise InputError(f"doubt: expected a finite number of at least 0, got {doubt!r}")
        if self.evidence is not None or self.number_evidence is not None:
            raise EvidenceError("doubted: doubt first, then give the evidence")
        scores = self.joint_scores().scores
        lead = scores.amax(dim=1, keepdim=True) - scores.mean(dim=1, keepdim=True)
        factor = torch.rsqrt(1.0 + doubt * lead).to(at_least_float32(self.fine_scores).dtype)
        coarse, numbers = self.coarse_scores, self.number_scores
        return Posterior(
            self.graph,
            at_least_float32(self.fine_scores) * factor,
            None if coarse is None else at_least_float32(coarse) * factor,
            number_scores=None if numbers is None else at_least_float32(numbers) * factor.unsqueeze(2),
            tensors=self.tensors,
        )

    def mean_views(self, views: int) -> Posterior:
        """Average the fine probabilities of each run of `views` samples, such as ten views of one photo.

        Marginals and evidence then follow from the average. In kinds with several parents, the probabilities of the
        parents follow from the mean coarse scores. Likewise, a value with a spread follows from the mean scores of its
        number.
        """
        if views < 1 or len(self) % views:
            raise ShapeError(f"mean_views: {len(self)} samples cannot be cut into runs of {views} views")
        if self.evidence is not None or self.number_evidence is not None:
            raise EvidenceError("mean_views: average the views first, then give the evidence")
        log_probs = self.log_probs().reshape(-1, views, len(self.graph))
        fine = torch.logsumexp(log_probs, dim=1) - torch.tensor(float(views)).log().item()
        numbers = None
        if self.number_scores is not None and not self.tensors.numbers.linear:
            numbers = at_least_float32(self.number_scores).reshape(len(fine), views, -1, 2).mean(dim=1).to(fine.dtype)
            # The mean scores will be added again, so they are subtracted here to keep the average unchanged.
            fine = fine - add_number_terms(self.tensors.numbers, torch.zeros_like(fine), numbers, None)
        if self.coarse_scores is None or all(kind.plain for kind in self.tensors.kinds):
            return Posterior(self.graph, fine, number_scores=numbers, tensors=self.tensors)
        coarse = at_least_float32(self.coarse_scores).reshape(len(fine), views, -1).mean(dim=1).to(fine.dtype)
        for kind in self.tensors.kinds:
            if kind.plain:
                coarse[:, kind.columns] = 0.0
            else:
                fine = fine - kind.group_scores(coarse[:, kind.columns]).index_select(1, kind.group)
        return Posterior(self.graph, fine, coarse, number_scores=numbers, tensors=self.tensors)


def _check_risk(what: str, risk: float) -> None:
    if not 0.0 <= risk < 1.0:
        raise InputError(f"{what}: risk must be at least 0 and below 1, got {risk}")


def _side_by_side(
    graph: LabelGraph, fine_scores: Float[Tensor, "batch fine"], scores: Mapping[str, Tensor]
) -> Float[Tensor, "batch coarse"] | None:
    """The coarse scores of all kinds in one matrix; zeros for kinds that are left out."""
    for name, value in scores.items():
        expected = (fine_scores.shape[0], len(graph.labels(name)))
        if value.shape != expected:
            raise ShapeError(f"scores of kind {name!r}: expected shape {expected}, got {tuple(value.shape)}")
    if not scores:
        return None
    parts = [
        scores[name] if name in scores else fine_scores.new_zeros(fine_scores.shape[0], len(graph.labels(name)))
        for name in graph.kinds
    ]
    return torch.cat(parts, dim=1)


def _numbers_side_by_side(
    graph: LabelGraph, fine_scores: Float[Tensor, "batch fine"], scores: Mapping[str, Tensor]
) -> Float[Tensor, "batch number 2"] | None:
    """The scores of all numbers; zeros for those that are left out."""
    for name, value in scores.items():
        graph.number(name)
        if value.shape != (len(fine_scores), 2):
            raise ShapeError(
                f"scores of number {name!r}: expected shape ({len(fine_scores)}, 2), a pull and a precision, "
                f"got {tuple(value.shape)}"
            )
    if not scores:
        return None
    zeros = next(iter(scores.values())).new_zeros(len(fine_scores), 2)
    return torch.stack([scores.get(name, zeros) for name in graph.numbers], dim=1)


_LEAVES = ("fine_scores", "coarse_scores", "evidence", "number_scores", "number_evidence")
_LEAVES_WITHOUT_NUMBERS = 3
"""The number of leaves in programs that were exported before finegraph had numbers."""


def _flatten(posterior: Posterior) -> tuple[list[Any], LabelGraph]:
    leaves = [getattr(posterior, name) for name in _LEAVES]
    return leaves if posterior.graph.numbers else leaves[:_LEAVES_WITHOUT_NUMBERS], posterior.graph


def _unflatten(values: Any, graph: LabelGraph) -> Posterior:
    leaves = list(values)
    fine_scores = leaves[0]
    posterior = object.__new__(Posterior)
    object.__setattr__(posterior, "graph", graph)
    # Tracers replace tensors by placeholders, so nothing may be checked here.
    for name, value in zip(_LEAVES, [*leaves, None, None], strict=False):
        object.__setattr__(posterior, name, value)
    device = fine_scores.device if isinstance(fine_scores, Tensor) else torch.device("cpu")
    object.__setattr__(posterior, "tensors", graph_tensors(graph, device))
    return posterior


pytree.register_pytree_node(
    Posterior,
    _flatten,
    _unflatten,
    serialized_type_name="finegraph.Posterior",
    to_dumpable_context=canonical_json,
    from_dumpable_context=graph_from_json,
)
