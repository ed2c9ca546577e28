"""A bipartite head whose labels are sharded over processes.

Each process holds the rows of its own fine labels, those of its labels of the largest kind, and a copy of the rows of
all other kinds and of numbers (`graph/label_shards.py`). The loss is that of `loss/rows_loss.py`: the features of the
whole batch are the same in all processes, and so are the gradients of copies, which therefore stay equal without being
sent. In a step, processes exchange one reference per sample, batch x (targets + numbers + 2) sums, the gradient of the
features, batch x (labels of all kinds but the largest) gradients of coarse scores, and two per number. None of this
grows with the number of fine labels.

Processes may form a grid: several groups, each of which shares all labels out and takes a batch of its own. Processes
with the same labels in different groups then add up the gradients of their rows after each backward pass
(`sum_gradients`).

Answers work the same way, in log space: the best labels and the probabilities of a kind come from joint scores and
their log-sum-exps over all processes, so that the smallest probabilities are those of one process. The distribution of
the value of a number comes from such sums over the labels with the same value; this exchange grows with the number of
different values. A head that fits in one process is a `BipartiteHead`, which answers every other question; `take` and
`whole` convert.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from finegraph.errors import InputError, ShapeError
from finegraph.graph import LabelGraph
from finegraph.graph.label_shards import LabelShard, label_shard
from finegraph.inference.loss.rows_loss import SINGLE_PROCESS, Exchange, RowsTask, rows_loss, rows_task
from finegraph.inference.numbers.number_rows import NumberRows, NumberSums, summed_terms
from finegraph.inference.numbers.potential import components_of
from finegraph.inference.numbers.value_distribution import ValueDistribution
from finegraph.inference.numerics import Constants, LogSums, without_autocast
from finegraph.inference.sums.graph_tensors import graph_tensors
from finegraph.inference.sums.label_rows import LabelRows, chunk_rows, joint_score_chunks
from finegraph.inference.sums.targets import KindWeights, Reduction, Targets
from finegraph.nn.heads import BipartiteHead
from finegraph.nn.number_layer import NumberLayer, starting_terms
from finegraph.nn.prior import LaplacianEdges, laplacian

_ROWS_AT_ONCE = 1 << 14


class BestLabels(NamedTuple):
    """The most probable fine labels of each sample, best first, as indices into the graph."""

    label: Int[Tensor, "batch _"]
    log_prob: Float[Tensor, "batch _"]


class ShardedHead(nn.Module):
    """The part of a bipartite head that one process holds.

    Separate coarse features are not supported.

    Attributes:
        shard: the labels of this process.
        exchange: the communication between the processes that share the labels.
        groups: the communication between the processes that hold the same labels.
        fine: the layer of its fine labels.
        coarse: the layer of its coarse labels, kind after kind.
        numbers: the layer of the numbers of the graph; None if it has none.
    """

    numbers: NumberLayer | None

    def __init__(
        self,
        features: int,
        graph: LabelGraph,
        exchange: Exchange,
        *,
        rank: int | None = None,
        size: int | None = None,
        bias: bool = True,
        groups: Exchange = SINGLE_PROCESS,
    ) -> None:
        """Make the part of an untrained head.

        Its rows are those that `BipartiteHead` would draw with the same seed, whatever the number of processes.

        Args:
            features: the number of columns of the features.
            graph: the label graph.
            exchange: the communication between the processes that share the labels.
            rank: the number of this process, from 0; by default that of the exchange.
            size: the number of processes; by default that of the exchange.
            bias: whether the layers have a bias.
            groups: the communication between the processes of different groups that hold the same labels; by default
                there is one group.

        Raises:
            InputError: there are too few labels for this many processes.
        """
        super().__init__()
        self.features, self.graph, self.exchange, self.groups = features, graph, exchange, groups
        rank, size = exchange.rank if rank is None else rank, exchange.size if size is None else size
        self.shard = label_shard(graph, rank, size)
        self._constants = _ShardTensors(graph, self.shard)
        self._shared, self._local = _shared_columns(graph, self.shard), _local_columns(graph, self.shard)
        self.fine = _Undrawn(features, len(self._constants.fine), bias=bias)
        self.coarse = _Undrawn(features, len(self._constants.coarse), bias=bias)
        self.numbers = NumberLayer(features, len(graph.numbers), bias=bias) if graph.numbers else None
        self._draw(bias)

    @property
    def _tensors(self) -> _ShardTensors:
        """The tensors of the labels of this process, where the weights are."""
        device = self.fine.weight.device
        if self._constants.place.device != device:
            self._constants = self._constants.on(device)
        return self._constants

    def _draw(self, bias: bool) -> None:
        """Draw the rows of the fine labels as a whole layer would, some rows at a time; coarse rows start at 0."""
        bound, rows = self.features**-0.5, self._tensors.fine
        with torch.no_grad():
            for values in (self.fine.weight, self.fine.bias) if bias else (self.fine.weight,):
                done = 0
                for start in range(0, len(self.graph), _ROWS_AT_ONCE):
                    count = min(_ROWS_AT_ONCE, len(self.graph) - start)
                    drawn = values.new_empty(count, *values.shape[1:]).uniform_(-bound, bound)
                    own = rows[(rows >= start) & (rows < start + count)] - start
                    values[done : done + len(own)] = drawn[own]
                    done += len(own)
            for parameter in self.coarse.parameters():
                parameter.zero_()
            if self.numbers is not None and bias:  # as in a whole head
                self.fine.bias.sub_(starting_terms(graph_tensors(self.graph).numbers).to(self.fine.bias)[rows])

    def take(self, head: BipartiteHead) -> None:
        """Copy the rows of a whole head.

        Raises:
            ShapeError: the head has other sizes.
            InputError: the head has a doubt.
        """
        if head.graph.digest != self.graph.digest or head.features != self.features or head.coarse_features is not None:
            raise ShapeError("expected a head of the same graph and features, without features for coarse labels")
        _refuse_doubt(head)
        with torch.no_grad():
            for whole, own, rows, _ in self._layers(head):
                for name, values in own.named_parameters():
                    assert whole is not None
                    values.copy_(whole.get_parameter(name)[rows])
            for own_values, of_head in self._of_numbers(head):
                assert of_head is not None
                own_values.copy_(of_head)

    def take_first(self, head: BipartiteHead | None) -> None:
        """Copy the rows of a whole head from the first process. All processes must call it, the others with None.

        Rows are sent in parts, so that only the first process holds all of them.

        Raises:
            InputError: in the first process, if the head has a doubt.
        """
        if head is not None:
            _refuse_doubt(head)
        with torch.no_grad():
            for whole, own, rows, count in self._layers(head):
                for name, values in own.named_parameters():
                    for start, part in _parts(count, values):
                        if whole is not None:
                            part.copy_(whole.get_parameter(name)[start : start + len(part)])
                        if self.shard.rank == 0:
                            self.groups.copy_first([part])
                        self.exchange.copy_first([part])
                        low, high = _between(rows, start, start + len(part))
                        values[low:high] = part[rows[low:high] - start]
            for own_values, of_head in self._of_numbers(head):
                if of_head is not None:
                    own_values.copy_(of_head)
                if self.shard.rank == 0:
                    self.groups.copy_first([own_values])
                self.exchange.copy_first([own_values])

    def _of_numbers(self, head: BipartiteHead | None) -> list[tuple[Tensor, Tensor | None]]:
        """The tensors of the layer of numbers, each with that of a whole head; the latter are None if that is None."""
        if self.numbers is None:
            return []
        whole = None if head is None else head.numbers
        theirs = None if whole is None else whole.state_dict()
        return [(own, None if theirs is None else theirs[name]) for name, own in self.numbers.state_dict().items()]

    def whole(self) -> BipartiteHead:
        """The whole head, in every process; it must fit in memory there."""
        head = self._empty_head()
        self._collect(head)
        return head

    def whole_in_first(self) -> BipartiteHead | None:
        """The whole head in the first process, None in others. All processes must call it; rows are sent in parts."""
        if self.groups.rank > 0:
            return None
        head = self._empty_head() if self.shard.rank == 0 else None
        self._collect(head)
        return head

    def _empty_head(self) -> BipartiteHead:
        with torch.device("meta"):  # weights would be drawn only to be overwritten
            head = BipartiteHead(self.features, self.graph, bias=self.fine.bias is not None)
        return head.to(self.fine.weight.dtype).to_empty(device=self.fine.weight.device)

    def _layers(self, head: BipartiteHead | None) -> list[tuple[nn.Module | None, nn.Linear, Tensor, int]]:
        """For fine and coarse labels: the whole layer, the layer of this process, its rows, and the number of rows."""
        coarse, own = graph_tensors(self.graph).coarse_count, self._tensors
        return [
            (None if head is None else head.fine, self.fine, own.fine, len(self.graph)),
            (None if head is None else head.coarse, self.coarse, own.coarse, coarse),
        ]

    def _collect(self, head: BipartiteHead | None) -> None:
        """Copy the rows of all processes into a whole head, in processes that have one."""
        # Copies are sent by the first process only.
        coarse_mask = torch.full_like(self._tensors.coarse, self.shard.rank == 0, dtype=torch.bool)
        for columns in self._local:
            coarse_mask[columns] = True
        masks: dict[nn.Linear, Tensor] = {
            self.fine: torch.ones_like(self._tensors.fine, dtype=torch.bool),
            self.coarse: coarse_mask,
        }
        with torch.no_grad():
            for whole, own, rows, count in self._layers(head):
                places, kept = rows[masks[own]], masks[own]
                for name, values in own.named_parameters():
                    sent = values if bool(kept.all()) else values[kept]
                    for start, part in _parts(count, values):
                        low, high = _between(places, start, start + len(part))
                        part.zero_()
                        part[places[low:high] - start] = sent[low:high]
                        self.exchange.sum([part])
                        if whole is not None:
                            whole.get_parameter(name)[start : start + len(part)] = part
            for own_values, of_head in self._of_numbers(head):
                if of_head is not None:
                    of_head.copy_(own_values)

    # ---- training ---------------------------------------------------------------------------------------------------

    def loss(
        self,
        features: Float[Tensor, "batch feature"],
        target: Int[Tensor, " batch"] | None,
        kind_targets: Mapping[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]] | None = None,
        kind_weights: KindWeights = None,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
    ) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
        """The joint loss of a whole batch, the same in all processes that share the labels.

        Args:
            features: the features of all samples, the same in all these processes.
            target: the fine label of each sample; see `joint_loss` for this and the following.
            kind_targets: for some kinds, the photo label of each sample; for some numbers, the value measured on it.
            kind_weights: the weight of the term of each kind and number.
            reduction: "mean", "sum" or "none".
            ignore_index: marks labels that were not observed.
        """
        self._check(features)
        rows = self._tensors.rows
        whole = rows_task(
            graph_tensors(self.graph, features.device),
            len(features),
            target,
            kind_targets,
            kind_weights,
            reduction,
            ignore_index,
            rows,
            self._tensors.numbers,
        )
        task = RowsTask(
            rows,
            self._own_targets(whole.targets),
            whole.weight,
            whole.factor,
            whole.total,
            self._shared,
            self.exchange,
            whole.numbers,
            whole.readings,
        )
        coarse, numbers = self._coarse_scores(features), self._number_scores(features)
        return rows_loss(task, features, self.fine.weight, self.fine.bias, coarse, numbers)

    def sum_gradients(self) -> None:
        """Add up the gradients of the rows over all groups. All processes must call it, after their backward passes.

        Copies are summed apart from other rows, whose number differs between processes: exchanges may add in an order
        that depends on the place of a number, and copies have to stay equal to the bit.
        """
        if self.groups.size == 1:
            return
        fine = [self.fine.weight, *([] if self.fine.bias is None else [self.fine.bias])]
        coarse = [self.coarse.weight, *([] if self.coarse.bias is None else [self.coarse.bias])]
        numbers = [] if self.numbers is None else list(self.numbers.parameters())
        for parameter in (*fine, *coarse, *numbers):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in coarse if parameter.grad is not None]
        for own in (parameter.grad for parameter in fine if parameter.grad is not None):
            self.groups.sum([own])
        for columns in self._local:
            self.groups.sum([gradient[columns] for gradient in gradients])
        copies = [gradient[columns] for gradient in gradients for columns in self._shared]
        self.groups.sum([*copies, *(parameter.grad for parameter in numbers if parameter.grad is not None)])

    def prior(self) -> Float[Tensor, ""]:
        """The weight prior, as `laplacian_prior`; gradients of rows that all processes hold are summed over all."""
        result: Tensor = _SharedPrior.apply(self.fine.weight, self.coarse.weight, self)  # type: ignore[no-untyped-call]
        return result

    def smoothing(
        self, features: Float[Tensor, "batch feature"], target: Int[Tensor, " batch"], ignore_index: int = -100
    ) -> Float[Tensor, " batch"]:
        """Log p of the fine label less the mean of log p over all fine labels, the same in all processes.

        A share of it, added to the loss, spreads that share of the target over all labels.

        Args:
            features: those of all samples, the same in all processes.
            target: the fine label of each sample.
            ignore_index: marks what was not observed; such a sample has 0.
        """
        # Log p is the joint score less a number of the sample, which cancels: sums of scores are enough.
        layout, known = self._tensors.rows.layout, target != ignore_index
        features = features.to(self.fine.weight.dtype)
        coarse = _sum_gradients(self._coarse_scores(features), self.exchange, self._shared)
        groups = layout.group_scores(coarse)[0] if layout.kinds else None
        place = self._tensors.place[target.masked_fill(~known, 0)]
        own, place = place >= 0, place.clamp_min(0)
        inside = _sum_gradients(features, self.exchange)
        at_target = (inside * self.fine.weight[place]).sum(dim=1)
        mean = inside @ (self.fine.weight.sum(dim=0) / len(self.graph))
        if self.fine.bias is not None:
            at_target, mean = at_target + self.fine.bias[place], mean + self.fine.bias.sum() / len(self.graph)
        if groups is not None:
            for column in layout.group_columns:
                at_target = at_target + groups.gather(1, column[place].unsqueeze(1)).squeeze(1)
                counts = torch.bincount(column, minlength=layout.group_count).to(groups) / len(self.graph)
                mean = mean + groups @ counts
        numbers = self._number_scores(features)
        if numbers is not None:
            numbers = _sum_gradients(numbers.reshape(len(numbers), -1), self.exchange).view_as(numbers)
            at_target = at_target + self._terms_at(place, numbers)
            total = summed_terms(self._tensors.number_rows, numbers, chunk_rows(len(features)))
            mean = mean + total / len(self.graph)
        found: Tensor = _SumValues.apply(torch.where(own, at_target, 0.0) - mean, self.exchange)  # type: ignore[no-untyped-call]
        return torch.where(known, found, 0.0)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Parameters with their learning rates for an optimizer; see `BipartiteHead.parameter_groups`."""
        count = len(self.graph.kinds) + len(self.graph.numbers)
        return [{"params": list(self.parameters()), "lr": lr / (count + 1)}]

    # ---- answers ----------------------------------------------------------------------------------------------------

    def top(self, features: Float[Tensor, "batch feature"], count: int = 5) -> BestLabels:
        """The most probable fine labels of all processes, the same in each.

        Args:
            features: the features of some samples.
            count: the number of labels.
        """
        own = self._tensors.fine
        best = _Best(min(count, len(own)), len(features), own.device)
        log_total = self._scan(features, best)[0]
        shape = (self.shard.size, count, len(features))
        log_prob, label = log_total.new_zeros(shape), own.new_zeros(shape)
        log_prob[self.shard.rank] = -torch.inf
        log_prob[self.shard.rank, : best.count] = best.score - log_total
        label[self.shard.rank, : best.count] = own[best.place]
        self.exchange.sum([log_prob])
        self.exchange.sum([label])
        found = log_prob.flatten(0, 1).t().topk(min(count, len(self.graph)), dim=1)
        return BestLabels(label.flatten(0, 1).t().gather(1, found.indices), found.values)

    def kind_log_probs(self, features: Float[Tensor, "batch feature"], kind: str) -> Float[Tensor, "batch label"]:
        """The log probabilities of the labels of a kind, the same in all processes, in float64.

        Args:
            features: the features of some samples.
            kind: the name of the kind.
        """
        return self.all_kind_log_probs(features, (kind,))[kind]

    def all_kind_log_probs(
        self, features: Float[Tensor, "batch feature"], kinds: Sequence[str]
    ) -> dict[str, Float[Tensor, "batch label"]]:
        """The same for several kinds.

        Args:
            features: those of some samples.
            kinds: the kinds.
        """
        log_total, groups = self._scan(features, None, kinds)
        found = {}
        for kind in kinds:
            tensors = graph_tensors(self.graph).kind(kind)
            columns = self._tensors.column[tensors.columns]
            own = (columns >= 0).nonzero().squeeze(1)
            labels = LogSums(tensors.label_count, len(features), columns.device)
            labels.take(own, groups, columns[own])
            self._add_up(labels)
            found[kind] = (labels.log() - log_total).t()
        return found

    def value(self, features: Float[Tensor, "batch feature"], number: str) -> ValueDistribution:
        """The distribution of the value of a number, the same in all processes; see `Posterior.value`.

        Processes exchange the probabilities of all its different values and spreads.

        Args:
            features: the features of some samples.
            number: the name of the number.
        """
        tensors = graph_tensors(self.graph, features.device).numbers.number(number)
        values = LogSums(tensors.count, len(features), features.device)
        log_total = self._scan(features, None, values=(tensors.place, values))[0]
        self._add_up(values)
        weights = (values.log() - log_total).t().exp()
        with torch.no_grad():
            scores = self._number_scores(features)
        components = components_of(tensors, scores, None)
        return ValueDistribution(tensors.number, weights / weights.sum(dim=1, keepdim=True), components)

    def _scan(
        self,
        features: Float[Tensor, "batch feature"],
        best: _Best | None,
        kinds: Sequence[str] = (),
        values: tuple[int, LogSums] | None = None,
    ) -> tuple[Float[Tensor, " batch"], LogSums]:
        """Look at the joint scores of this process, once, or twice for sums over kinds.

        Args:
            features: those of some samples.
            best: is offered all scores; None if the best ones are not asked for.
            kinds: the kinds whose labels are summed.
            values: a number and the sums of its components, which are filled; None if they are not asked for.

        Returns:
            The log of the sum over the fine labels of all processes, and the sums of this one by group.
        """
        self._check(features)
        rows, batch, device = self._tensors.rows, len(features), features.device
        layout = rows.layout
        groups, total = LogSums(layout.group_count if kinds else 0, batch, device), LogSums(1, batch, device)
        all_in_one = torch.zeros(1, dtype=torch.int64, device=device)
        columns = [layout.group_columns_of(graph_tensors(self.graph).kind(kind).number) for kind in kinds]
        with torch.no_grad(), without_autocast(features.device):
            features = features.to(self.fine.weight.dtype)
            scores, mixing = layout.group_scores(self._coarse_scores(features)) if layout.kinds else (None, None)
            numbers, sums = self._number_scores(features), None
            if numbers is not None:
                sums = NumberSums(self._tensors.number_rows, numbers)
            lists = [(column, groups) for column in columns]
            if values is not None:
                lists.append((self._tensors.number_rows.component[values[0]], values[1]))
            layer = (rows, scores, features, self.fine.weight, self.fine.bias, sums)
            for part, own in joint_score_chunks(*layer) if lists else ():
                for column, found in lists:
                    found.see(column[part], own)
            for part, own in joint_score_chunks(*layer):
                total.add(all_in_one, own.logsumexp(dim=0, keepdim=True))
                for column, found in lists:
                    found.add_seen(column[part], own)
                if best is not None:
                    best.offer(part.start, own)
            if mixing is not None and kinds:
                groups.add(layout.edge_column, groups.log()[layout.edge_row] + mixing.t())
            self._add_up(total)
        return total.log().squeeze(0), groups

    def _add_up(self, sums: LogSums) -> None:
        """Add the sums of all processes."""
        largest = sums.largest.clone()
        self.exchange.largest(largest)
        sums.raise_to(largest)
        self.exchange.sum([sums.total])

    def _coarse_scores(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch coarse"]:
        weight, bias = self.coarse.weight, self.coarse.bias
        rows: Tensor = _CoarseRows.apply(features.to(weight.dtype), weight, bias, self)  # type: ignore[no-untyped-call]
        return rows.t()

    def _number_scores(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch number 2"] | None:
        """The scores of numbers. All processes compute them alike, and their gradients are alike, too."""
        if self.numbers is None:
            return None
        scores: Tensor = self.numbers(features.to(self.numbers.weight.dtype))
        return scores

    def _terms_at(
        self, place: Int[Tensor, " batch"], scores: Float[Tensor, "batch number 2"]
    ) -> Float[Tensor, " batch"]:
        """The terms of numbers in the joint score of one fine label of this process for each sample."""
        rows = self._tensors.number_rows
        value, variance = (one[:, place].t().to(scores.dtype) for one in (rows.value, rows.variance))
        pull, precision = scores.unbind(dim=2)
        gain = 1.0 + precision * variance
        terms = (pull * (value + 0.5 * pull * variance) - 0.5 * precision * value * value) / gain
        return (terms - 0.5 * gain.log()).sum(dim=1)

    def _own_targets(self, targets: Targets) -> Targets:
        """The targets as indices into the labels of this process; -1 for labels of other processes."""
        own = self._tensors
        return targets._replace(fine=own.place[targets.fine], column=own.column[targets.column])

    def _check(self, features: Tensor) -> None:
        if features.ndim != 2 or features.shape[1] != self.features:
            raise ShapeError(f"features: expected shape (batch, {self.features}), got {tuple(features.shape)}")


class _ShardTensors(Constants):
    """The labels of one process, as tensors.

    Attributes:
        rows: its fine labels, for sums over them.
        edges: its links, for the prior.
        numbers: the values of its fine labels; None if the graph has no numbers.
        fine: the fine labels.
        coarse: the coarse labels, counted over all kinds.
        place: the place of each fine label of the graph among its own; -1 for those of other processes.
        column: the same for the group columns of the graph.
    """

    fine: Tensor
    coarse: Tensor
    place: Tensor
    column: Tensor

    def __init__(self, graph: LabelGraph, shard: LabelShard) -> None:
        coarse = shard.coarse(graph)
        part, column = graph_tensors(graph).by_groups.layout.part(shard.fine, coarse)
        place = np.full(len(graph), -1)
        place[shard.fine] = np.arange(len(shard.fine))
        self.rows, self.edges = LabelRows(part), LaplacianEdges(graph, shard)
        self.numbers = NumberRows(graph_tensors(graph).numbers, shard.fine) if graph.numbers else None
        self.store_arrays({"fine": shard.fine, "coarse": coarse, "place": place, "column": column})

    @property
    def number_rows(self) -> NumberRows:
        """The values of its fine labels, in a graph that has numbers."""
        assert self.numbers is not None
        return self.numbers


class _Best:
    """The fine labels of this process with the largest joint scores, best first.

    Attributes:
        count: how many.
        score: their joint scores.
        place: their places among the fine labels of this process.
    """

    def __init__(self, count: int, batch: int, device: torch.device) -> None:
        self.count = count
        self.score = torch.zeros(0, batch, dtype=torch.float64, device=device)
        self.place = torch.zeros(0, batch, dtype=torch.int64, device=device)

    def offer(self, start: int, scores: Float[Tensor, "_ batch"]) -> None:
        """Keep the best of those before and of some rows from `start` on."""
        found = scores.topk(min(self.count, len(scores)), dim=0)
        score = torch.cat([self.score, found.values])
        place = torch.cat([self.place, found.indices + start])
        self.score, kept = score.topk(min(self.count, len(score)), dim=0)
        self.place = place.gather(0, kept)


class _Undrawn(nn.Linear):
    """A layer that does not initialise its parameters; the caller does."""

    def reset_parameters(self) -> None:
        """Do nothing."""


class _SumValues(torch.autograd.Function):
    """Numbers summed over all processes; the gradient of the sum is that of each part."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, exchange: Exchange) -> Tensor:
        total = values.clone()
        exchange.sum([total])
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


class _SumGradients(torch.autograd.Function):
    """A matrix that all processes have; its gradient, to which each adds a part, is summed in some columns."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, exchange: Exchange, columns: tuple[slice, ...]) -> Tensor:
        ctx.exchange, ctx.columns = exchange, columns
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        grad = grads[0].clone()
        ctx.exchange.sum([grad[:, columns] for columns in ctx.columns])
        return grad, None, None


def _sum_gradients(
    values: Float[Tensor, "batch _"], exchange: Exchange, columns: tuple[slice, ...] = (slice(None),)
) -> Float[Tensor, "batch _"]:
    result: Tensor = _SumGradients.apply(values, exchange, columns)  # type: ignore[no-untyped-call]
    return result


def _refuse_doubt(head: BipartiteHead) -> None:
    if head.doubt:
        raise InputError("a sharded head does not support a doubt; set the doubt of the head to 0")


def _parts(count: int, like: Tensor) -> Iterator[tuple[int, Tensor]]:
    """The start of each chunk of rows, and an empty tensor for it."""
    for start in range(0, count, _ROWS_AT_ONCE):
        yield start, like.new_empty(min(_ROWS_AT_ONCE, count - start), *like.shape[1:])


def _between(rows: Int[Tensor, " _"], start: int, stop: int) -> tuple[int, int]:
    """The places of the rows from `start` up to `stop`, which are rising."""
    low, high = torch.searchsorted(rows, rows.new_tensor([start, stop])).tolist()
    return low, high


class _CoarseRows(torch.autograd.Function):
    """Coarse scores with labels as rows.

    The gradient of the features through rows of one process is summed over processes. The gradient through copies is
    already the same in all processes, since the gradients of their scores are. Rows of copies are multiplied apart from
    the others, whose number differs between processes: so copies stay alike to the bit.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, head: ShardedHead) -> Tensor:
        ctx.head = head
        ctx.save_for_backward(features, weight)
        rows = weight @ features.t()
        return rows if bias is None else rows.add_(bias.unsqueeze(1))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        (features, weight), head, feature_grad = ctx.saved_tensors, ctx.head, None
        weight_grad = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        bias_grad = weight.new_empty(len(weight)) if ctx.needs_input_grad[2] else None
        for columns in (*head._local, *head._shared):
            own = grads[0][columns].clone(memory_format=torch.contiguous_format)  # laid out alike in all processes
            if weight_grad is not None:
                weight_grad[columns] = own @ features
            if bias_grad is not None:
                bias_grad[columns] = own.sum(dim=1)
        if ctx.needs_input_grad[0]:
            feature_grad = torch.zeros_like(features)
            for columns in head._local:
                feature_grad.addmm_(grads[0][columns].t(), weight[columns])
            head.exchange.sum([feature_grad])
            for columns in head._shared:
                feature_grad.addmm_(grads[0][columns].t(), weight[columns])
        return feature_grad, weight_grad, bias_grad, None


class _SharedPrior(torch.autograd.Function):
    """The prior over the edges of each process, summed over all processes."""

    @staticmethod
    def forward(ctx: Any, fine: Tensor, coarse: Tensor, head: ShardedHead) -> Tensor:
        with torch.enable_grad():
            rows = fine.detach().requires_grad_(), coarse.detach().requires_grad_()
            value = laplacian(head._tensors.edges, *rows)
            grads = torch.autograd.grad(value, rows)
        total = value.detach().clone()
        head.exchange.sum([total])
        head.exchange.sum([grads[1][columns] for columns in head._shared])
        ctx.save_for_backward(*grads)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        fine, coarse = ctx.saved_tensors
        return grads[0] * fine, grads[0] * coarse, None


def _local_columns(graph: LabelGraph, shard: LabelShard) -> tuple[slice, ...]:
    """The coarse columns that only this process holds."""
    start = 0
    for name in graph.kinds:
        count = len(shard.labels) if name == shard.kind else len(graph.labels(name))
        if name == shard.kind:
            return (slice(start, start + count),)
        start += count
    return ()


def _shared_columns(graph: LabelGraph, shard: LabelShard) -> tuple[slice, ...]:
    """The coarse columns that all processes hold."""
    count = len(shard.coarse(graph))
    local = _local_columns(graph, shard)
    if not local:
        return (slice(0, count),)
    return tuple(part for part in (slice(0, local[0].start), slice(local[0].stop, count)) if part.stop > part.start)
