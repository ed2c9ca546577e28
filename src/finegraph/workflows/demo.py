"""A short tour of the label graph on the small menu that comes with finegraph.

There are no photos here. Each "photo" is a made-up feature vector in which the dish, the restaurant and the
ingredients leave traces, plus noise. So the tour shows how things work and what one can ask; it is no evidence of how
much the graph helps on real photos.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.graph.draw import draw_svg
from finegraph.graph.samples import sample_menu
from finegraph.graph.text_file import write_text
from finegraph.inference import Answer, Explanation, Posterior, Statement, joint_loss
from finegraph.nn import BipartiteHead, SoftmaxHead, laplacian_prior

_Head = TypeVar("_Head", SoftmaxHead, BipartiteHead)
FEATURES, NOISE, TEST_PHOTOS = 48, 3.5, 40


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Accuracies of one head on test samples, as fractions: of the fine label, the dish and the restaurant."""

    head: str
    fine: float
    dish: float
    restaurant: float


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What the tour found.

    Attributes:
        graph: the menu.
        photos: made-up photos per fine label that the heads were trained with.
        scores: the accuracies of both heads, means over the draws.
        draws: how many times photos were drawn and heads trained.
        truth: the fine label of the test photo that is looked at closely.
        top: its most probable fine labels.
        dishes: its most probable dishes.
        sure: the most specific statement with a risk of at most 5 %.
        known: what is then learnt of it.
        top_given: its most probable fine labels given that.
        explanation: why the first rather than the second.
        new_item: a fine label that no photo was seen of.
        new_item_first: how often it is the first answer to photos of it, as a fraction.
        new_item_third: how often it is among the first three answers.
        drawing: where the drawing of the graph was written.
    """

    graph: LabelGraph
    photos: int
    scores: tuple[Scores, ...]
    draws: int
    truth: str
    top: list[Answer]
    dishes: list[Answer]
    sure: Statement | None
    known: dict[str, str]
    top_given: list[Answer]
    explanation: Explanation
    new_item: str
    new_item_first: float
    new_item_third: float
    drawing: str


def run_demo(folder: str | os.PathLike[str], photos: int = 2, draws: int = 5) -> Demo:
    """Train both heads on made-up photos of the menu, and ask the posterior what it can answer.

    Args:
        folder: where the drawing of the graph is written.
        photos: made-up photos per fine label to train with.
        draws: how many times photos are drawn and heads trained.
    """
    graph = sample_menu()
    os.makedirs(folder, exist_ok=True)
    drawing = os.path.join(folder, "menu.svg")
    write_text(drawing, draw_svg(graph, title="The sample menu"))
    with torch.random.fork_rng(devices=[]):  # the random numbers of the caller are left alone
        return _tour(graph, drawing, photos, draws)


def _tour(graph: LabelGraph, drawing: str, photos: int, draws: int) -> Demo:
    """The tour, once the graph is drawn."""
    scores: dict[str, list[Scores]] = {"softmax": [], "bipartite": []}
    for draw in range(draws):
        world = _World(graph, draw)
        train, test = world.photos(photos), world.photos(TEST_PHOTOS)
        heads: dict[str, SoftmaxHead | BipartiteHead]
        heads = {"softmax": _fresh(SoftmaxHead, graph, draw), "bipartite": _fresh(BipartiteHead, graph, draw)}
        for name, head in heads.items():
            train_head(head, *train)
            scores[name].append(_score(name, head, *test))
    features, target = test
    posterior = heads["bipartite"](features)
    sample = _telling_sample(posterior, target)
    one = Posterior(graph, posterior.fine_scores[sample, None], posterior.coarse_scores[sample, None])
    truth = graph.fine[int(target[sample])]
    known = {"restaurant": graph.labels("restaurant")[graph.parents("restaurant")[target[sample]]]}
    given = one.given(known)
    first, second = (answer.label for answer in given.top(2)[0])
    new_item = graph.fine[1]
    new_first, new_third = _zero_shot(graph, new_item, photos, draws)
    return Demo(
        graph=graph,
        photos=photos,
        scores=tuple(_mean(name, each) for name, each in scores.items()),
        draws=draws,
        truth=truth,
        top=one.top(3)[0],
        dishes=one.top(3, "dish")[0],
        sure=one.answer(risk=0.05)[0],
        known=known,
        top_given=given.top(3)[0],
        explanation=given.explain(first, second)[0],
        new_item=new_item,
        new_item_first=new_first,
        new_item_third=new_third,
        drawing=drawing,
    )


def train_head(head: SoftmaxHead | BipartiteHead, features: Tensor, target: Tensor, steps: int = 150) -> None:
    """Train a head on features. This is all that a training loop of one's own needs."""
    kinds = len(head.graph.kinds)
    optimizer = torch.optim.AdamW(head.parameter_groups(lr=0.05), weight_decay=0.1)
    for _ in range(steps):
        loss = joint_loss(head(features), target, kind_weights=1 / kinds)
        if isinstance(head, BipartiteHead):
            loss = loss + 1e-3 * laplacian_prior(head)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _fresh(make: type[_Head], graph: LabelGraph, seed: int) -> _Head:
    """An untrained head, the same for the same seed."""
    torch.manual_seed(seed)
    return make(FEATURES, graph)


class _World:
    """Made-up photos: every label of every kind has a look of its own, and a photo is the sum of its labels' looks."""

    def __init__(self, graph: LabelGraph, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)
        centres = torch.zeros(len(graph), FEATURES)
        for name in graph.kinds:
            kind = graph.kind(name)
            looks = torch.randn(len(kind.labels), FEATURES, generator=self.random) * (1.5 if name == "dish" else 0.8)
            centres += torch.from_numpy(kind.matrix()).float() @ looks
        self.centres = centres + 0.5 * torch.randn(len(graph), FEATURES, generator=self.random)

    def photos(self, each: int) -> tuple[Tensor, Tensor]:
        """Features and fine labels of photos of every fine label."""
        target = torch.arange(len(self.centres)).repeat_interleave(each)
        noise = torch.randn(len(target), FEATURES, generator=self.random)
        return self.centres[target] + NOISE * noise, target


def _score(name: str, head: SoftmaxHead | BipartiteHead, features: Tensor, target: Tensor) -> Scores:
    """The accuracies of a trained head."""
    with torch.no_grad():
        posterior = head(features)
        right: dict[str | None, float] = {None: (posterior.probs().argmax(dim=1) == target).double().mean().item()}
        for kind in ("dish", "restaurant"):
            truth = torch.from_numpy(head.graph.parents(kind))[target]
            right[kind] = (posterior.probs(kind).argmax(dim=1) == truth).double().mean().item()
    return Scores(head=name, fine=right[None], dish=right["dish"], restaurant=right["restaurant"])


def _mean(name: str, scores: list[Scores]) -> Scores:
    """The mean over draws."""
    fine, dish, restaurant = np.mean([(one.fine, one.dish, one.restaurant) for one in scores], axis=0).tolist()
    return Scores(head=name, fine=fine, dish=dish, restaurant=restaurant)


def _telling_sample(posterior: Posterior, target: Tensor) -> int:
    """The first test photo that is taken for the right dish of the wrong restaurant; else the first of all."""
    graph = posterior.graph
    dish = torch.from_numpy(graph.parents("dish"))
    guess = posterior.probs().argmax(dim=1)
    telling = ((guess != target) & (dish[guess] == dish[target])).nonzero()
    return int(telling[0]) if len(telling) else 0


def _zero_shot(graph: LabelGraph, missing: str, photos: int, draws: int) -> tuple[float, float]:
    """How often a fine label that heads saw no photo of is the first, and among the first three answers."""
    index = graph.fine_index(missing)
    kept = np.array([fine for fine in range(len(graph)) if fine != index])
    smaller = LabelGraph([graph.fine[fine] for fine in kept], [graph.kind(name).rows(kept) for name in graph.kinds])
    hits = []
    for draw in range(draws):
        world = _World(graph, draw)
        features, target = world.photos(photos)
        seen = target != index
        head = _fresh(BipartiteHead, smaller, draw)
        train_head(head, features[seen], torch.searchsorted(torch.from_numpy(kept), target[seen]))
        test, truth = world.photos(TEST_PHOTOS)
        with torch.no_grad():
            best = head.extend(graph)(test[truth == index]).probs().topk(3).indices == index
        hits.append((best[:, 0].double().mean().item(), best.any(dim=1).double().mean().item()))
    first, third = np.mean(hits, axis=0).tolist()
    return first, third
