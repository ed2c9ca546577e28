"""The walks of a loss through the code: few functions deep, and never back to a file that they have left."""

import sys
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.inference.processes import ONE_PROCESS
from finegraph.inference.sums.graph_tensors import GraphTensors
from finegraph.inference.sums.strategy import Strategy
from finegraph.nn.sharded_head import ShardedHead
from reference.random_graphs import FORMS, random_graph
from reference.random_numbers import with_numbers

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.deep]

INFERENCE = str(Path(sys.modules["finegraph.inference"].__file__).parent)
MAX_DEPTH = {"calls": 8, "rows_calls": 9}
FEATURES = 3


class Walk:
    """Records the calls of functions of inference while it is entered: for each, the functions from the top to it."""

    def __init__(self):
        self.calls, self.open = set(), []

    def __enter__(self):
        sys.setprofile(self.note)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def note(self, frame, event, _):
        code = frame.f_code
        # Comprehensions and lambdas are parts of the function that they stand in.
        if not code.co_filename.startswith(INFERENCE) or code.co_name.startswith("<"):
            return
        if event == "call":
            self.open.append((Path(code.co_filename).relative_to(INFERENCE).as_posix(), code.co_qualname))
            self.calls.add(tuple(self.open))
        elif event == "return" and self.open:
            self.open.pop()


def losses():
    """Losses of all forms of graphs by all strategies, with everything that a loss can be given.

    Sizes of batches and scores of coarse labels alternate from form to form: that is a quarter of all combinations, and
    takes the same ways through the code.
    """
    strategies = [Strategy(by=by, weights=weights) for by in ("rows", "columns") for weights in (False, True)]
    for number, form in enumerate(FORMS):
        case = random_graph(np.random.default_rng(number), form)
        graph = case.graph if number % 3 else with_numbers(np.random.default_rng(number), case, 2)[0]
        generator = torch.Generator().manual_seed(number)
        coarse_count = sum(len(graph.labels(kind)) for kind in graph.kinds)
        batch = (1, 20)[number % 2]
        for strategy in strategies:
            tensors = GraphTensors(graph, strategy)
            fine = torch.randn(batch, len(graph), generator=generator)
            coarse = torch.randn(batch, coarse_count, generator=generator).requires_grad_()
            target = torch.randint(len(graph), (batch,), generator=generator)
            one_of_three = torch.rand(batch, len(graph), generator=generator).argsort(dim=1) < 3
            fine[0, target[0]] = -900.0  # a probability that underflows
            fine.requires_grad_()
            own = (None, coarse)[number // 2 % 2]
            values = torch.rand(batch, len(graph.numbers), 2, generator=generator).requires_grad_()
            posterior = fg.Posterior(graph, fine, own, number_scores=values if graph.numbers else None, tensors=tensors)
            yield posterior, target, {}
            yield posterior, target, {"kind_weights": 0.5, "reduction": "none"}
            seen = {kind: torch.full((batch,), -2) for kind in graph.kinds}
            yield posterior, target.clone().fill_(-100), {"kind_targets": seen}
            yield posterior, one_of_three, {}
            yield posterior, one_of_three, {"kind_targets": seen, "kind_weights": 0.5, "reduction": "none"}
            scores = 1e4 * fine, None if own is None else 1e4 * own
            wide = fg.Posterior(graph, *scores, number_scores=values if graph.numbers else None, tensors=tensors)
            yield wide, target, {}


def heads():
    """Heads for all forms of graphs, whose losses are computed from features; their scores are moderate or large."""
    for number, form in enumerate(FORMS):
        case = random_graph(np.random.default_rng(number), form)
        graph = case.graph if number % 3 else with_numbers(np.random.default_rng(number), case, 2)[0]
        head = ShardedHead(FEATURES, graph, ONE_PROCESS) if number % 2 else fg.BipartiteHead(FEATURES, graph)
        for size in (1.0, 400.0):  # with the second, probabilities underflow
            torch.manual_seed(number)
            with torch.no_grad():
                for parameter in head.parameters():
                    parameter.copy_(size * torch.randn(parameter.shape))
            yield head, torch.randn(4, FEATURES, requires_grad=True), torch.tensor([0, -100, len(graph) - 1, 0])


def calls_of(make_loss):
    """The calls of a loss and of its backward pass."""
    make_loss()  # tables are made at the first loss
    with Walk() as forward:
        loss = make_loss()
    with Walk() as backward:
        loss.sum().backward()
    return forward.calls | backward.calls


@pytest.fixture(scope="module")
def rows_calls():
    """The calls of the losses that are computed from features, and of their backward passes."""
    found = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("finegraph.nn.heads._FEW_SCORES", -1)
        for head, features, target in heads():
            seen = {kind: torch.full((4,), -2) for kind in head.graph.kinds}
            for settings in ({}, {"kind_targets": seen, "kind_weights": 0.5, "reduction": "none"}):
                found |= calls_of(partial(head.loss, features, target, **settings))
    return found


@pytest.fixture(scope="module")
def calls():
    """The calls of all losses of scores and their backward passes."""
    found = set()
    for posterior, target, settings in losses():
        found |= calls_of(partial(fg.joint_loss, posterior, target, **settings))
    return found


def test_the_walk_meets_all_implementations(calls):
    functions = {name for stack in calls for _, name in stack}
    for implementation in ("RowSums", "ColumnSums", "WeightSums"):
        for step in ("joint_scores", "set_probs", "target_probs", "gradient", "coarse_gradient", "log_shares"):
            inherited = step == "log_shares" and implementation != "WeightSums"
            assert f"{'GroupShares' if inherited else implementation}.{step}" in functions
    assert {"_add_in_log_space", "reading_terms", "read_number"} <= functions


def test_the_walk_from_features_meets_all_steps(rows_calls):
    functions = {name for stack in rows_calls for _, name in stack}
    assert {"rows_task", "rows_loss", "_RowsLoss.backward", "add_terms_in_log_space"} <= functions
    for step in ("find_exponentials", "sums", "find_gradient", "coarse_gradient", "number_gradient", "log_shares"):
        assert f"LabelSums.{step}" in functions


@pytest.fixture(params=["calls", "rows_calls"], ids=["from scores", "from features"])
def walk(request):
    return request.param, request.getfixturevalue(request.param)


def test_a_loss_is_few_functions_deep(walk):
    name, stacks = walk
    deepest = max(stacks, key=len)
    assert len(deepest) <= MAX_DEPTH[name], " -> ".join(name for _, name in deepest)


def test_a_loss_never_goes_back_to_a_file_that_it_has_left(walk):
    for stack in walk[1]:
        files = [file for file, _ in groupby(file for file, _ in stack)]
        assert len(files) == len(set(files)), " -> ".join(f"{file} {name}" for file, name in stack)
        assert len(stack) == len(set(stack)), " -> ".join(name for _, name in stack)
