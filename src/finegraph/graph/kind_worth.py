"""How much each kind of coarse labels contributes to a head fitted in closed form.

Such a fit estimates how far apart the labels of each kind lie (a variance), and how far apart classes lie beyond all
kinds. Two classes differ along a kind if their labels do. So the worth of a kind is the mean over all pairs of classes:

    variance * (mean over classes of |row|^2 - |mean row|^2)        row: the weights of the labels of a class

which is variance * (1 - sum of squared shares of labels) if classes have one label each. A kind whose labels look alike
adds nothing, nor does one that is nearly the same for all classes. The worth of a number is variance * the variance of
its values on the inner scale, ignoring spreads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.graph.label_graph import LabelGraph

_MIN_SHARE = 0.01
"""A kind with a smaller share is listed as adding nothing."""
_MAX_NAMED = 5


@dataclass(frozen=True)
class KindWorth:
    """The share of each kind in telling classes apart; shares add up to 1.

    Attributes:
        kinds: the share of each kind, number and group of kinds (such as ingredients), largest first.
        own: the share that no kind explains.
    """

    kinds: dict[str, float]
    own: float

    @property
    def words(self) -> str:
        """The shares in a sentence or two."""
        if not self.kinds:
            return "The label graph takes no part."
        telling = {kind: share for kind, share in self.kinds.items() if share >= _MIN_SHARE}
        silent = [kind for kind in self.kinds if kind not in telling]
        shares = [f"{kind} tells {_percent(share)}" for kind, share in list(telling.items())[:_MAX_NAMED]]
        rest = sum(list(telling.values())[_MAX_NAMED:])
        more = len(telling) - _MAX_NAMED
        shares += [f"{more} more kind{'s' if more != 1 else ''} {_percent(rest)}"] if rest else []
        named = ", ".join(shares) or "no kind tells anything"
        text = f"Of what tells classes apart, {named}, and {_percent(self.own)} is each class's own."
        if not silent:
            return text
        few = ", ".join(silent[:_MAX_NAMED]) + (f" and {len(silent) - _MAX_NAMED} more" if silent[_MAX_NAMED:] else "")
        return f"{text} {few} {'adds' if len(silent) == 1 else 'add'} nothing."


def kind_worth(
    graph: LabelGraph, kinds: Mapping[str, float], own: float, numbers: Mapping[str, float] | None = None
) -> KindWorth:
    """Split what tells classes apart among the kinds.

    Args:
        graph: the label graph.
        kinds: the variance of the labels of each kind.
        own: the variance of classes beyond all kinds.
        numbers: per number, the variance that a value with variance 1 adds.

    Example:
        >>> graph = LabelGraph.from_table({"a": {"dish": "x", "year": "1"}, "b": {"dish": "y", "year": "2"}})
        >>> kind_worth(graph, {"year": 0.0, "dish": 3.0}, own=1.0).words
        "Of what tells classes apart, dish tells 75 %, and 25 % is each class's own. year adds nothing."
    """
    groups: dict[str, float] = {}
    for kind, variance in kinds.items():
        name, mark, _ = kind.partition(GROUP_SEPARATOR)
        name = name if mark and name not in kinds else kind
        groups[name] = groups.get(name, 0.0) + variance * _spread(graph, kind)
    for name, variance in (numbers or {}).items():
        number = graph.number(name)
        values = number.standardised[0][number.known]
        groups[name] = variance * (float(np.var(values)) if len(values) else 0.0)
    own *= 1.0 - 1.0 / len(graph)
    total = sum(groups.values()) + own
    if not total > 0.0:  # all classes look alike
        return KindWorth(dict.fromkeys(groups, 0.0), 1.0)
    ranked = sorted(groups.items(), key=lambda one: -one[1])
    return KindWorth({kind: variance / total for kind, variance in ranked}, own / total)


def _spread(graph: LabelGraph, kind: str) -> float:
    """How much the rows of classes differ on average; classes whose label is unknown are left out."""
    fine, coarse, weight = graph.edges(kind)
    known = len(np.unique(fine))
    if not known:
        return 0.0
    mean = np.bincount(coarse, weights=weight, minlength=len(graph.labels(kind))) / known
    return max(0.0, float(np.square(weight).sum() / known - np.square(mean).sum()))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
