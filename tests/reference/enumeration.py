"""The model by enumeration: every state of the joint distribution is listed, and every answer is a sum over that list.

This file shares no code with the package and knows plain arrays only. It looks at one sample:

    fine_scores   (fine,)                        f_i
    kind_scores   per kind, (coarse,)            f^j_c
    matrices      per kind, (fine x coarse)      g^j_ic; rows sum to 1, unknown rows are already filled (`fill_unknown`)
    raw           the same, but a row of zeros where the parent is unknown: only edges that the graph really has

    P(i, c_1, ..., c_m)  is proportional to  exp(f_i) * prod_j g^j[i, c_j] exp(f^j[c_j])

`log_joint` gives the logarithms of these probabilities as one array with axis 0 for the fine labels and axis 1 + j for
kind j. All queries read that array. The cost is the number of states, fine * coarse_1 * ... * coarse_m: small graphs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Parts = tuple[Array, list[Array]]
"""One array for the fine labels, and one for each kind in order: log probabilities, derivatives or parts of a score."""


# ---- the joint distribution ------------------------------------------------------------------------------------------


def fill_unknown(raw: ArrayLike, prior: Literal["frequency", "uniform"] = "frequency") -> Array:
    """The matrix with rows that sum to 1, in which a row of zeros is replaced by the prior of the kind.

    The prior is the mean of the known rows ("frequency") or even ("uniform", and also where no row is known).
    """
    rows = [np.asarray(row, dtype=np.float64) for row in np.asarray(raw)]
    known = [row / math.fsum(row) for row in rows if row.any()]
    coarse = len(rows[0])
    if prior == "uniform" or not known:
        latent = np.full(coarse, 1.0 / coarse)
    else:
        latent = np.array([math.fsum(row[c] for row in known) / len(known) for c in range(coarse)])
    return np.array([row / math.fsum(row) if row.any() else latent for row in rows])


def joint_table(
    fine_scores: Sequence[float], kind_scores: Sequence[Sequence[float]], matrices: Sequence[ArrayLike]
) -> list[tuple[int, tuple[int, ...], float]]:
    """Every (fine label, coarse labels, log probability), by nothing but loops. The slowest and plainest form."""
    grids = [np.asarray(matrix, dtype=np.float64) for matrix in matrices]
    states, log_weights = [], []
    for i in range(len(fine_scores)):
        for labels in itertools.product(*[range(len(scores)) for scores in kind_scores]):
            parts = [float(fine_scores[i])]
            for j, c in enumerate(labels):
                weight = float(grids[j][i, c])
                parts += [float(kind_scores[j][c]), math.log(weight) if weight > 0 else -math.inf]
            states.append((i, labels))
            log_weights.append(math.fsum(parts))
    largest = max(log_weights)
    log_z = largest + math.log(math.fsum(math.exp(weight - largest) for weight in log_weights))
    return [(i, labels, weight - log_z) for (i, labels), weight in zip(states, log_weights, strict=True)]


def log_joint(fine_scores: ArrayLike, kind_scores: Sequence[ArrayLike], matrices: Sequence[ArrayLike]) -> Array:
    """The log probability of every state: an array (fine, coarse of kind 0, coarse of kind 1, ...)."""
    fine = np.asarray(fine_scores, dtype=np.float64)
    joint = fine.reshape([len(fine)] + [1] * len(matrices))
    for j, (scores, given_matrix) in enumerate(zip(kind_scores, matrices, strict=True)):
        matrix = np.asarray(given_matrix, dtype=np.float64)
        if np.abs(matrix.sum(axis=1) - 1).max() > 1e-9:
            raise ValueError(f"kind {j}: every row must sum to 1; fill the unknown rows first")
        log_weights = _log(matrix) + np.asarray(scores, dtype=np.float64)
        shape = [len(fine)] + [1] * len(matrices)
        shape[1 + j] = matrix.shape[1]
        joint = joint + log_weights.reshape(shape)
    return joint - log_sum(joint)


def log_sum(values: ArrayLike) -> float:
    """The log of the sum of the exponentials; minus infinity when there is nothing to sum."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    largest = float(flat.max(initial=-math.inf))
    return largest + math.log(np.exp(flat - largest).sum()) if largest > -math.inf else -math.inf


def _log(values: Array) -> Array:
    """The logarithm; that of 0 is minus infinity, without a warning."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


# ---- marginals, evidence, entropy ------------------------------------------------------------------------------------


def fine_log_probs(joint: Array) -> Array:
    """The log probability of each fine label."""
    return _marginal(joint, 0)


def kind_log_probs(joint: Array, kind: int) -> Array:
    """The log probability of each coarse label of a kind; minus infinity for a label that no state has."""
    return _marginal(joint, 1 + kind)


def log_probs(joint: Array) -> Parts:
    """The log probabilities of the fine labels, and those of every kind in order."""
    return fine_log_probs(joint), [kind_log_probs(joint, j) for j in range(joint.ndim - 1)]


def _marginal(joint: Array, axis: int) -> Array:
    return np.array([log_sum(joint.take(label, axis=axis)) for label in range(joint.shape[axis])])


def given(
    joint: Array, kinds: Mapping[int, Set[int] | ArrayLike] | None = None, fine: Set[int] | ArrayLike | None = None
) -> Array:
    """The joint distribution after evidence; ask it like the one before.

    Args:
        joint: from `log_joint`.
        kinds: kind -> the set of labels that remain, or a likelihood per label (soft evidence, any scale).
        fine: the same for the fine labels themselves.

    Raises:
        ZeroDivisionError: when the evidence has probability 0.
    """
    weighted = _weighted(joint, kinds, fine)
    log_z = log_sum(weighted)
    if log_z == -math.inf:
        raise ZeroDivisionError("the evidence has probability 0")
    return np.asarray(weighted - log_z)


def evidence_log_prob(
    joint: Array, kinds: Mapping[int, Set[int] | ArrayLike] | None = None, fine: Set[int] | ArrayLike | None = None
) -> float:
    """The log probability of the evidence; for soft evidence the log of its mean likelihood. Arguments as `given`."""
    return log_sum(_weighted(joint, kinds, fine))


def _weighted(
    joint: Array, kinds: Mapping[int, Set[int] | ArrayLike] | None, fine: Set[int] | ArrayLike | None
) -> Array:
    """The joint with every state multiplied by its likelihoods."""
    by_axis = {1 + kind: evidence for kind, evidence in (kinds or {}).items()}
    if fine is not None:
        by_axis[0] = fine
    for axis, evidence in by_axis.items():
        size = joint.shape[axis]
        if isinstance(evidence, Set):
            if not evidence <= set(range(size)):
                raise ValueError(f"axis {axis}: the labels are 0 to {size - 1}, got {sorted(evidence)}")
            likelihood = np.array([1.0 if label in evidence else 0.0 for label in range(size)])
        else:
            likelihood = np.asarray(evidence, dtype=np.float64)
        shape = [1] * joint.ndim
        shape[axis] = size
        joint = joint + _log(likelihood).reshape(shape)
    return joint


class Effect(NamedTuple):
    """What knowing a kind is expected to do: fall of the fine entropy in bits, mean of the best, P(settled)."""

    gain: float
    after: float
    settles: float


def question_effect(joint: Array, kind: int, risk: float) -> Effect:
    """What asking for the label of a kind is expected to do: every answer is given in turn, and weighed."""
    gain, after, settles = fine_entropy(joint), 0.0, 0.0
    for label, log_prob in enumerate(kind_log_probs(joint, kind)):
        if log_prob == -math.inf:
            continue
        probability, told = math.exp(log_prob), given(joint, {kind: {label}})
        best = math.exp(fine_log_probs(told).max())
        gain -= probability * fine_entropy(told)
        after += probability * best
        settles += probability if best >= 1.0 - risk else 0.0
    return Effect(gain / math.log(2.0), after, settles)


def fine_entropy(joint: Array) -> float:
    """The entropy of the fine labels, in nats."""
    return _entropy(fine_log_probs(joint))


def kind_entropy(joint: Array, kind: int) -> float:
    """The entropy of the labels of a kind, in nats."""
    return _entropy(kind_log_probs(joint, kind))


def joint_entropy(joint: Array) -> float:
    """The entropy of all labels together, in nats."""
    return _entropy(joint)


def _entropy(values: Array) -> float:
    possible = values[values > -math.inf]
    return -math.fsum(np.exp(possible) * possible)


# ---- the loss of one sample ------------------------------------------------------------------------------------------


class Term(NamedTuple):
    """One part of a loss: `-weight * log P(the label of this kind is one of these)`; kind None is the fine label."""

    weight: float
    kind: int | None
    labels: frozenset[int]


def fine_term(target: int | Set[int] | None) -> list[Term]:
    """-log p_y for a label, -log sum_{i in S} p_i for a set, nothing where it was not observed."""
    if target is None:
        return []
    return [Term(1.0, None, frozenset(target) if isinstance(target, Set) else frozenset({target}))]


def kind_term_for_label(kind: int, label: int, weight: float = 1.0) -> list[Term]:
    """-weight * log p^j_c for a label that was seen."""
    return [Term(weight, kind, frozenset({label}))]


def kind_term_for_row(kind: int, row: ArrayLike, weight: float = 1.0) -> list[Term]:
    """-weight * sum_c g_yc log p^j_c with the row of the true fine label; nothing where the row is unknown (zeros)."""
    values = [float(value) for value in np.asarray(row, dtype=np.float64)]
    total = math.fsum(values)
    return [Term(weight * value / total, kind, frozenset({c})) for c, value in enumerate(values) if value > 0]


def kind_term_for_union(kind: int, labels: Set[int], weight: float = 1.0) -> list[Term]:
    """-weight * log of the summed probability of a set of labels."""
    return [Term(weight, kind, frozenset(labels))]


def loss_terms(
    raw: Sequence[ArrayLike],
    target: int | Set[int] | None,
    kind_targets: Mapping[int, int | Set[int] | None] | None = None,
    kind_weights: Sequence[float] | None = None,
) -> list[Term]:
    """The loss of one sample: -log p_y - sum_j weight_j * (the term of kind j).

    Args:
        raw: the matrices with rows of zeros where the parent is unknown.
        target: the fine label, a set of which one is true, or None where it was not observed.
        kind_targets: what was observed of some kinds: a label, a set of which one is true, or None for nothing. A kind
            that is not listed follows from the fine target: its row, for a set the union of the parents. It gives
            no term where the fine target is None, or where the parent of one of its labels is unknown.
        kind_weights: one per kind, by default 1.
    """
    observed = kind_targets or {}
    terms = fine_term(target)
    for j, given_matrix in enumerate(raw):
        matrix = np.asarray(given_matrix, dtype=np.float64)
        weight = 1.0 if kind_weights is None else float(kind_weights[j])
        if j in observed:
            seen = observed[j]
            if isinstance(seen, Set):
                terms += kind_term_for_union(j, seen, weight)
            elif seen is not None:
                terms += kind_term_for_label(j, seen, weight)
        elif isinstance(target, Set):
            if all(matrix[i].any() for i in target):
                parents = {int(c) for i in target for c in np.flatnonzero(matrix[i])}
                terms += kind_term_for_union(j, parents, weight)
        elif target is not None:
            terms += kind_term_for_row(j, matrix[target], weight)
    return terms


def loss(joint: Array, terms: Iterable[Term]) -> float:
    """The value of a loss; 0 when nothing was observed, infinite when the impossible was."""
    return math.fsum(-term.weight * _event_log_prob(joint, term) for term in terms if term.weight != 0)


def _event_log_prob(joint: Array, term: Term) -> float:
    axis = 0 if term.kind is None else 1 + term.kind
    return log_sum([log_sum(joint.take(label, axis=axis)) for label in term.labels])


# ---- gradients -------------------------------------------------------------------------------------------------------


def loss_gradient(joint: Array, terms: Iterable[Term]) -> Parts:
    """The exact derivative of a loss by every score.

    A score is the coefficient of an indicator in the exponent of the model, so for any event E

        d log P(E) / d f_i   = P(i | E) - P(i)            d log P(E) / d f^j_c = P(c_j = c | E) - P(c_j = c)
    """
    before = [np.exp(_marginal(joint, axis)) for axis in range(joint.ndim)]
    gradient = [np.zeros(size) for size in joint.shape]
    for weight, kind, labels in terms:
        if weight == 0:
            continue
        after = given(joint, fine=labels) if kind is None else given(joint, {kind: labels})
        for axis in range(joint.ndim):
            gradient[axis] -= weight * (np.exp(_marginal(after, axis)) - before[axis])
    return gradient[0], gradient[1:]


def finite_difference_gradient(
    function: Callable[[Array, list[Array]], float],
    fine_scores: ArrayLike,
    kind_scores: Sequence[ArrayLike],
    step: float = 2.0**-5,
) -> Parts:
    """The derivative of `function(fine_scores, kind_scores)` by every score, from values of the function alone.

    Central differences at step, step / 2 and step / 4 are extrapolated to step 0 (Richardson): the error falls with the
    sixth power of the step, so the step can be large enough that rounding does not matter.
    """
    blocks = [np.array(scores, dtype=np.float64) for scores in (fine_scores, *kind_scores)]

    def slope(block: int, index: int, width: float) -> float:
        values = []
        for sign in (1.0, -1.0):
            moved = [scores.copy() for scores in blocks]
            moved[block][index] += sign * width
            values.append(function(moved[0], moved[1:]))
        return (values[0] - values[1]) / (2 * width)

    gradient = [np.zeros(len(scores)) for scores in blocks]
    for block, scores in enumerate(blocks):
        for index in range(len(scores)):
            coarse, middle, narrow = (slope(block, index, step / part) for part in (1, 2, 4))
            first, second = (4 * middle - coarse) / 3, (4 * narrow - middle) / 3
            gradient[block][index] = (16 * second - first) / 15
    return gradient[0], gradient[1:]


# ---- the cumulative gradient of the paper's supplement, for one parent per kind --------------------------------------


def printed_cumulative_gradient(joint: Array, matrices: Sequence[Array], target: int, kind: int, label: int) -> float:
    """The derivative of sum_{j != l} log p^j[phi_j(y)] by f^l_c as the paper prints it. It is wrong.

        sum_i (q_i - p_i / p^l_c - p^l_c)

    Legend: l = kind, c = label, y = target, phi_j(y) = its parent in kind j, q_i as in `_accumulated`.
    """
    p = np.exp(fine_log_probs(joint)).tolist()
    p_label = math.exp(kind_log_probs(joint, kind)[label])
    q = _accumulated(joint, matrices, target)
    total = 0.0
    for i in range(len(p)):
        total += q[i] - p[i] / p_label - p_label
    return total


def corrected_cumulative_gradient(joint: Array, matrices: Sequence[Array], target: int, kind: int, label: int) -> float:
    """The same derivative, right: masked by the children of c, the active label taken out, p^l_c once per other kind.

    sum_i g^l_ic (q_i - g^l[i, phi_l(y)] p_i / p^l[phi_l(y)]) - (m - 1) p^l_c
    """
    p = np.exp(fine_log_probs(joint)).tolist()
    p_kind = np.exp(kind_log_probs(joint, kind)).tolist()
    q = _accumulated(joint, matrices, target)
    active = _only_parent(matrices[kind], target)
    total = -float((len(matrices) - 1) * p_kind[label])
    for i in range(len(p)):
        total += float(matrices[kind][i, label]) * (q[i] - float(matrices[kind][i, active]) * p[i] / p_kind[active])
    return total


def _accumulated(joint: Array, matrices: Sequence[Array], target: int) -> list[float]:
    """q_i = sum_j g^j[i, phi_j(y)] p_i / p^j[phi_j(y)]."""
    p = np.exp(fine_log_probs(joint)).tolist()
    q = [0.0] * len(p)
    for j, matrix in enumerate(matrices):
        active = _only_parent(matrix, target)
        p_active = math.exp(kind_log_probs(joint, j)[active])
        for i in range(len(p)):
            q[i] += float(matrix[i, active]) * p[i] / p_active
    return q


def _only_parent(matrix: Array, fine: int) -> int:
    (parent,) = np.flatnonzero(matrix[fine])
    return int(parent)


# ---- the prior of the weights ----------------------------------------------------------------------------------------


def weight_prior(fine_weights: Array, kind_weights: Sequence[Array], raw: Sequence[ArrayLike]) -> float:
    """sum_i sum_j sum_c g^j_ic |w_i - w^j_c|^2 / 2; rows of weights (label x feature). An unknown row has no edges."""
    parts = []
    for matrix, weights in zip(raw, kind_weights, strict=True):
        for i, row in enumerate(np.asarray(matrix)):
            for c, edge in enumerate(row):
                for one, two in zip(fine_weights[i], weights[c], strict=True):
                    parts.append(float(edge) * (float(one) - float(two)) ** 2 / 2)
    return math.fsum(parts)


def weight_prior_gradient(fine_weights: Array, kind_weights: Sequence[Array], raw: Sequence[ArrayLike]) -> Parts:
    """The derivative of `weight_prior` by the fine weights, and by the weights of each kind."""
    fine_gradient = np.zeros_like(fine_weights, dtype=np.float64)
    kind_gradients = [np.zeros_like(weights, dtype=np.float64) for weights in kind_weights]
    for j, matrix in enumerate(raw):
        for i, row in enumerate(np.asarray(matrix)):
            for c, edge in enumerate(row):
                pull = float(edge) * (fine_weights[i] - kind_weights[j][c])
                fine_gradient[i] += pull
                kind_gradients[j][c] -= pull
    return fine_gradient, kind_gradients


# ---- the sure answer -------------------------------------------------------------------------------------------------


class Statement(NamedTuple):
    """Fine label `label` (kind None) or label `label` of a kind, and how many fine labels it is compatible with."""

    kind: int | None
    label: int
    probability: float
    compatible: int


def statements(joint: Array, matrices: Sequence[ArrayLike]) -> list[Statement]:
    """All statements in order: the fine labels, then the labels of each kind.

    A coarse label is compatible with the fine labels whose row gives it weight. That includes unknown parents: their
    row is the prior. A label that no fine label can have is no statement.
    """
    listed = [Statement(None, i, math.exp(value), 1) for i, value in enumerate(fine_log_probs(joint))]
    for j, matrix in enumerate(matrices):
        for c, value in enumerate(kind_log_probs(joint, j)):
            compatible = sum(1 for row in np.asarray(matrix) if row[c] > 0)
            if compatible:
                listed.append(Statement(j, c, math.exp(value), compatible))
    return listed


def range_statements(joint: Array, kind: int, matrix: ArrayLike) -> list[tuple[tuple[int, int], float, int]]:
    """All runs of at least two labels of an ordered kind: (first, last), probability, compatible fine labels.

    Those that are compatible with all fine labels that are possible say nothing and are left out.
    """
    rows = np.asarray(matrix)[fine_log_probs(joint) > -math.inf]
    probs = np.exp(kind_log_probs(joint, kind))
    listed = []
    for first in range(len(probs)):
        for last in range(first + 1, len(probs)):
            compatible = sum(1 for row in rows if any(row[c] > 0 for c in range(first, last + 1)))
            if compatible < len(rows):
                listed.append(((first, last), math.fsum(probs[first : last + 1]), compatible))
    return listed


def sure_answer(joint: Array, matrices: Sequence[ArrayLike], risk: float, tolerance: float = 1e-12) -> Statement | None:
    """Of the statements with probability at least 1 - risk, the one compatible with the fewest fine labels.

    Ties go to the larger probability, then to the first in order; None when nothing is sure enough. Probabilities that
    differ by less than the tolerance are equal, so that rounding decides nothing.
    """
    sure = [statement for statement in statements(joint, matrices) if statement.probability >= 1 - risk - tolerance]
    if not sure:
        return None
    fewest = min(statement.compatible for statement in sure)
    specific = [statement for statement in sure if statement.compatible == fewest]
    largest = max(statement.probability for statement in specific)
    return next(statement for statement in specific if statement.probability >= largest - tolerance)


# ---- explaining ------------------------------------------------------------------------------------------------------


def joint_scores(
    fine_scores: Sequence[float], kind_scores: Sequence[Sequence[float]], matrices: Sequence[ArrayLike]
) -> Array:
    """s_i = f_i + sum_j log sum_c g^j_ic exp(f^j_c)."""
    scores = []
    for i in range(len(fine_scores)):
        parts = [float(fine_scores[i])]
        for own_scores, matrix in zip(kind_scores, matrices, strict=True):
            parts.append(log_sum(_log(np.asarray(matrix, dtype=np.float64)[i]) + np.asarray(own_scores)))
        scores.append(math.fsum(parts))
    return np.array(scores)


def minimum_norm_split(scores: ArrayLike, parent_matrices: Sequence[ArrayLike]) -> Parts:
    """The smallest fine and coarse scores that add up to the joint scores s: the fine part, and the part of each kind.

    A number is a matrix too: the columns v and - v^2 / 2 of its values.

    alpha = (I + G G')^-1 s with all kinds stacked in G; fine label i gets alpha_i from itself and (G_j' alpha)[parent]
    from kind j. All parts have one entry per fine label and sum to s.

    Args:
        scores: s, one per fine label.
        parent_matrices: per kind, 0/1 with one parent per row; a row of zeros gives the part 0.
    """
    s = np.asarray(scores, dtype=np.float64)
    grids = [np.asarray(matrix, dtype=np.float64) for matrix in parent_matrices]
    system = np.eye(len(s))
    for grid in grids:
        system = system + grid @ grid.T
    alpha = np.asarray(np.linalg.solve(system, s), dtype=np.float64)
    return alpha, [grid @ (grid.T @ alpha) for grid in grids]
