"""A bipartite head whose labels are sharded over processes.

Each process holds the rows of its own fine labels, those of its labels of the largest kind, and a copy of the rows of
all other kinds and of numbers (`graph/label_shards.py`). The loss is that of `inference/loss/rows_loss.py`: the
features of the whole batch are the same in all processes, and so are the gradients of copies, which therefore stay
equal without being sent. In a step, processes exchange one reference per sample, batch x (targets + numbers + 2) sums,
the gradient of the features, batch x (labels of all kinds but the largest) gradients of coarse scores, and two per
number. None of this grows with the number of fine labels.

Processes may form a grid: several groups, each of which shards all labels and takes a batch of its own. Processes
with the same labels in different groups then add up the gradients of their rows after each backward pass
(`sum_gradients`).

Answers work the same way, in log space: the best labels and the probabilities of a kind come from joint scores and
their log-sum-exps over all processes, so that the smallest probabilities are those of one process. The distribution of
the value of a number comes from such sums over the labels with the same value; this exchange grows with the number of
different values. A head that fits in one process is a `BipartiteHead`, which answers every other question; `take` and
`whole` convert.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from finegraph.errors import InputError, ShapeError
from finegraph.graph import LabelGraph
from finegraph.graph.label_shards import LabelShard, label_shard
from finegraph.inference.loss.rows_loss import RowsTask, rows_loss, rows_task
from finegraph.inference.numbers.number_rows import NumberRows, NumberSums, summed_terms
from finegraph.inference.numbers.potential import components_of
from finegraph.inference.numbers.value_distribution import ValueDistribution
from finegraph.inference.numerics import Constants, LogSums, without_autocast
from finegraph.inference.processes import ONE_PROCESS, Processes
from finegraph.inference.sums.graph_tensors import graph_tensors
from finegraph.inference.sums.label_rows import LabelRows, chunk_rows, joint_score_chunks
from finegraph.inference.sums.targets import KindWeights, Reduction, Targets
from finegraph.nn.coarse_inputs import (
    CoarseFeatures,
    CoarseSizes,
    check_columns,
    check_sizes,
    common_input,
    inputs_by_name,
    layers_of,
    stacked_weights,
)
from finegraph.nn.coarse_shards import coarse_blocks, coarse_rows, sum_gradients, sum_values
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

    Attributes:
        coarse_features: the number of columns of the features of coarse labels and numbers, as in a whole head.
        shard: the labels of this process.
        exchange: the communication between the processes that share the labels.
        groups: the communication between the processes that hold the same labels.
        fine: the layer of its fine labels.
        coarse: the layer of its coarse labels, kind after kind; one layer per kind if each has features of its own.
        numbers: the layer of the numbers of the graph, or one per number likewise; None if it has none.
    """

    coarse: nn.Linear | nn.ModuleList
    numbers: NumberLayer | nn.ModuleList | None

    def __init__(
        self,
        features: int,
        graph: LabelGraph,
        exchange: Processes,
        *,
        rank: int | None = None,
        size: int | None = None,
        coarse_features: CoarseSizes = None,
        bias: bool = True,
        groups: Processes = ONE_PROCESS,
    ) -> None:
        """Make the part of an untrained head.

        Its rows are those that `BipartiteHead` would draw with the same seed, whatever the number of processes.

        Args:
            features: the number of columns of the features.
            graph: the label graph.
            exchange: the communication between the processes that share the labels.
            rank: the number of this process, from 0; by default that of the exchange.
            size: the number of processes; by default that of the exchange.
            coarse_features: for two features, the number of columns of those of coarse labels and numbers, or one size
                per kind and number.
            bias: whether the layers have a bias.
            groups: the communication between the processes of different groups that hold the same labels; by default
                there is one group.

        Raises:
            InputError: there are too few labels for this many processes.
        """
        super().__init__()
        check_sizes(coarse_features, graph)
        self.features, self.coarse_features = features, coarse_features
        self.graph, self.exchange, self.groups = graph, exchange, groups
        rank, size = exchange.rank if rank is None else rank, exchange.size if size is None else size
        self.shard = label_shard(graph, rank, size)
        self._constants = _ShardTensors(graph, self.shard)
        self._blocks = coarse_blocks(graph, self.shard, by_kind=isinstance(coarse_features, Mapping))
        self._shared = tuple(columns for block in self._blocks for columns in block.of_process(block.shared))
        self.fine = _Undrawn(features, len(self._constants.fine), bias=bias)
        if isinstance(coarse_features, Mapping):
            named = zip(graph.kinds, self._blocks, strict=True)
            self.coarse = nn.ModuleList(_Undrawn(coarse_features[name], one.held, bias=bias) for name, one in named)
            of_numbers = [NumberLayer(coarse_features[name], 1, bias=bias) for name in graph.numbers]
            self.numbers = nn.ModuleList(of_numbers) if of_numbers else None
        else:
            width = features if coarse_features is None else coarse_features
            self.coarse = _Undrawn(width, len(self._constants.coarse), bias=bias)
            self.numbers = NumberLayer(width, len(graph.numbers), bias=bias) if graph.numbers else None
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
        sizes = head.features, head.coarse_features
        if head.graph.digest != self.graph.digest or sizes != (self.features, self.coarse_features):
            raise ShapeError(
                f"expected a head of the same graph, with {self.features} features and "
                f"{self.coarse_features or 'the same'} for coarse labels; got {sizes[0]} and {sizes[1] or 'the same'}"
            )
        _refuse_doubt(head)
        with torch.no_grad():
            for layer in self._layers(head):
                for name, values in layer.own.named_parameters():
                    assert layer.whole is not None
                    values.copy_(layer.whole.get_parameter(name)[layer.rows])
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
            for whole, own, rows, count, _ in self._layers(head):
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
            sizes, bias = self.coarse_features, self.fine.bias is not None
            head = BipartiteHead(self.features, self.graph, coarse_features=sizes, bias=bias)
        return head.to(self.fine.weight.dtype).to_empty(device=self.fine.weight.device)

    def _layers(self, head: BipartiteHead | None) -> list[_Layer]:
        """The layers with a row for each label, beside those of a whole head."""
        held, whole = self._tensors, None if head is None else layers_of(head.coarse)
        every = torch.ones_like(held.fine, dtype=torch.bool)
        found = [_Layer(None if head is None else head.fine, self.fine, held.fine, len(self.graph), every)]
        for place, (own, block) in enumerate(zip(layers_of(self.coarse), self._blocks, strict=True)):
            rows = held.coarse[block.columns] - block.first
            sent = torch.full_like(rows, self.shard.rank == 0, dtype=torch.bool)
            for local in block.local:
                sent[local] = True
            found.append(_Layer(None if whole is None else whole[place], own, rows, block.labels, sent))
        return found

    def _collect(self, head: BipartiteHead | None) -> None:
        """Copy the rows of all processes into a whole head, in processes that have one."""
        with torch.no_grad():
            for whole, own, rows, count, sent in self._layers(head):
                places = rows[sent]
                for name, values in own.named_parameters():
                    held = values if bool(sent.all()) else values[sent]
                    for start, part in _parts(count, values):
                        low, high = _between(places, start, start + len(part))
                        part.zero_()
                        part[places[low:high] - start] = held[low:high]
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
        *,
        coarse_features: CoarseFeatures = None,
    ) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
        """The joint loss of a whole batch, the same in all processes that share the labels.

        Args:
            features: the features of all samples, the same in all these processes.
            target: the fine label of each sample; see `joint_loss` for this and the following.
            kind_targets: for some kinds, the photo label of each sample; for some numbers, the value measured on it.
            kind_weights: the weight of the term of each kind and number.
            reduction: "mean", "sum" or "none".
            ignore_index: marks labels that were not observed.
            coarse_features: those of coarse labels and numbers, in a head of two features; the same in all these
                processes.
        """
        inputs, rows = self._inputs(features, coarse_features), self._tensors.rows
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
        coarse, numbers = self._coarse_scores(inputs), self._number_scores(inputs)
        return rows_loss(task, features, self.fine.weight, self.fine.bias, coarse, numbers)

    def sum_gradients(self) -> None:
        """Add up the gradients of the rows over all groups. All processes must call it, after their backward passes.

        Copies are summed apart from other rows, whose number differs between processes: exchanges may add in an order
        that depends on the place of a number, and copies have to stay equal to the bit.
        """
        if self.groups.size == 1:
            return
        numbers = [] if self.numbers is None else list(self.numbers.parameters())
        for parameter in self.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        for own in _gradients(self.fine.parameters()):
            self.groups.sum([own])
        copies = []
        for layer, block in zip(layers_of(self.coarse), self._blocks, strict=True):
            gradients = _gradients(layer.parameters())
            for rows in block.local:
                self.groups.sum([gradient[rows] for gradient in gradients])
            copies += [gradient[rows] for gradient in gradients for rows in block.shared]
        self.groups.sum([*copies, *_gradients(numbers)])

    def prior(self) -> Float[Tensor, ""]:
        """The weight prior, as `laplacian_prior`; gradients of rows that all processes hold are summed over all.

        Raises:
            ShapeError: fine and coarse labels have features of different sizes.
        """
        coarse = stacked_weights(self.coarse)
        result: Tensor = _SharedPrior.apply(self.fine.weight, coarse, self)  # type: ignore[no-untyped-call]
        return result

    def smoothing(
        self,
        features: Float[Tensor, "batch feature"],
        target: Int[Tensor, " batch"],
        ignore_index: int = -100,
        *,
        coarse_features: CoarseFeatures = None,
    ) -> Float[Tensor, " batch"]:
        """Log p of the fine label less the mean of log p over all fine labels, the same in all processes.

        A share of it, added to the loss, spreads that share of the target over all labels.

        Args:
            features: those of all samples, the same in all processes.
            target: the fine label of each sample.
            ignore_index: marks what was not observed; such a sample has 0.
            coarse_features: as for the loss.
        """
        # Log p is the joint score less a number of the sample, which cancels: sums of scores are enough.
        layout, known = self._tensors.rows.layout, target != ignore_index
        inputs = self._inputs(features, coarse_features)
        features = features.to(self.fine.weight.dtype)
        coarse = sum_gradients(self._coarse_scores(inputs), self.exchange, self._shared)
        groups = layout.group_scores(coarse)[0] if layout.kinds else None
        place = self._tensors.place[target.masked_fill(~known, 0)]
        own, place = place >= 0, place.clamp_min(0)
        inside = sum_gradients(features, self.exchange)
        at_target = (inside * self.fine.weight[place]).sum(dim=1)
        mean = inside @ (self.fine.weight.sum(dim=0) / len(self.graph))
        if self.fine.bias is not None:
            at_target, mean = at_target + self.fine.bias[place], mean + self.fine.bias.sum() / len(self.graph)
        if groups is not None:
            for column in layout.group_columns:
                at_target = at_target + groups.gather(1, column[place].unsqueeze(1)).squeeze(1)
                counts = torch.bincount(column, minlength=layout.group_count).to(groups) / len(self.graph)
                mean = mean + groups @ counts
        numbers = self._number_scores(inputs)
        if numbers is not None:
            numbers = sum_gradients(numbers.reshape(len(numbers), -1), self.exchange).view_as(numbers)
            at_target = at_target + self._terms_at(place, numbers)
            total = summed_terms(self._tensors.number_rows, numbers, chunk_rows(len(features)))
            mean = mean + total / len(self.graph)
        found = sum_values(torch.where(own, at_target, 0.0) - mean, self.exchange)
        return torch.where(known, found, 0.0)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Parameters with their learning rates for an optimizer; see `BipartiteHead.parameter_groups`."""
        count = len(self.graph.kinds) + len(self.graph.numbers)
        return [{"params": list(self.parameters()), "lr": lr / (count + 1)}]

    # ---- answers ----------------------------------------------------------------------------------------------------

    def own_scores(
        self, features: Float[Tensor, "batch feature"], coarse_features: CoarseFeatures = None
    ) -> Float[Tensor, "batch _"]:
        """The scores of the labels that this process holds and of numbers; other processes are not needed.

        Args:
            features: the features of some samples.
            coarse_features: those of coarse labels and numbers, in a head of two features.
        """
        inputs = self._inputs(features, coarse_features)
        coarse = [layer(own) for layer, own in zip(layers_of(self.coarse), inputs.coarse, strict=True)]
        numbers = self._number_scores(inputs)
        return torch.cat([self.fine(features), *coarse, *([] if numbers is None else [numbers.flatten(1)])], dim=1)

    def top(
        self, features: Float[Tensor, "batch feature"], count: int = 5, *, coarse_features: CoarseFeatures = None
    ) -> BestLabels:
        """The most probable fine labels of all processes, the same in each.

        Args:
            features: the features of some samples.
            count: the number of labels.
            coarse_features: those of coarse labels and numbers, in a head of two features.
        """
        own = self._tensors.fine
        best = _Best(min(count, len(own)), len(features), own.device)
        log_total = self._scan(self._inputs(features, coarse_features), best)[0]
        shape = (self.shard.size, count, len(features))
        log_prob, label = log_total.new_zeros(shape), own.new_zeros(shape)
        log_prob[self.shard.rank] = -torch.inf
        log_prob[self.shard.rank, : best.count] = best.score - log_total
        label[self.shard.rank, : best.count] = own[best.place]
        self.exchange.sum([log_prob])
        self.exchange.sum([label])
        found = log_prob.flatten(0, 1).t().topk(min(count, len(self.graph)), dim=1)
        return BestLabels(label.flatten(0, 1).t().gather(1, found.indices), found.values)

    def kind_log_probs(
        self, features: Float[Tensor, "batch feature"], kind: str, *, coarse_features: CoarseFeatures = None
    ) -> Float[Tensor, "batch label"]:
        """The log probabilities of the labels of a kind, the same in all processes, in float64.

        Args:
            features: the features of some samples.
            kind: the name of the kind.
            coarse_features: as for `top`.
        """
        return self.all_kind_log_probs(features, (kind,), coarse_features=coarse_features)[kind]

    def all_kind_log_probs(
        self, features: Float[Tensor, "batch feature"], kinds: Sequence[str], *, coarse_features: CoarseFeatures = None
    ) -> dict[str, Float[Tensor, "batch label"]]:
        """The same for several kinds.

        Args:
            features: those of some samples.
            kinds: the kinds.
            coarse_features: as for `top`.
        """
        log_total, groups = self._scan(self._inputs(features, coarse_features), None, kinds)
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

    def value(
        self, features: Float[Tensor, "batch feature"], number: str, *, coarse_features: CoarseFeatures = None
    ) -> ValueDistribution:
        """The distribution of the value of a number, the same in all processes; see `Posterior.value`.

        Processes exchange the probabilities of all its different values and spreads.

        Args:
            features: the features of some samples.
            number: the name of the number.
            coarse_features: as for `top`.
        """
        inputs = self._inputs(features, coarse_features)
        tensors = graph_tensors(self.graph, features.device).numbers.number(number)
        values = LogSums(tensors.count, len(features), features.device)
        log_total = self._scan(inputs, None, values=(tensors.place, values))[0]
        self._add_up(values)
        weights = (values.log() - log_total).t().exp()
        with torch.no_grad():
            scores = self._number_scores(inputs)
        components = components_of(tensors, scores, None)
        return ValueDistribution(tensors.number, weights / weights.sum(dim=1, keepdim=True), components)

    def _scan(
        self,
        inputs: _Inputs,
        best: _Best | None,
        kinds: Sequence[str] = (),
        values: tuple[int, LogSums] | None = None,
    ) -> tuple[Float[Tensor, " batch"], LogSums]:
        """Look at the joint scores of this process, once, or twice for sums over kinds.

        Args:
            inputs: the features of some samples.
            best: is offered all scores; None if the best ones are not asked for.
            kinds: the kinds whose labels are summed.
            values: a number and the sums of its components, which are filled; None if they are not asked for.

        Returns:
            The log of the sum over the fine labels of all processes, and the sums of this one by group.
        """
        rows, batch, device = self._tensors.rows, len(inputs.fine), inputs.fine.device
        layout = rows.layout
        groups, total = LogSums(layout.group_count if kinds else 0, batch, device), LogSums(1, batch, device)
        all_in_one = torch.zeros(1, dtype=torch.int64, device=device)
        columns = [layout.group_columns_of(graph_tensors(self.graph).kind(kind).number) for kind in kinds]
        with torch.no_grad(), without_autocast(device):
            features = inputs.fine.to(self.fine.weight.dtype)
            scores, mixing = layout.group_scores(self._coarse_scores(inputs)) if layout.kinds else (None, None)
            numbers, sums = self._number_scores(inputs), None
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

    def _inputs(self, features: Float[Tensor, "batch feature"], coarse_features: CoarseFeatures) -> _Inputs:
        """The inputs of all layers, checked."""
        check_columns("features", features, self.features)
        if isinstance(self.coarse_features, Mapping):
            found = inputs_by_name(coarse_features, self.coarse_features, self.graph)
            inputs = _Inputs(features, found[: len(self._blocks)], found[len(self._blocks) :])
        else:
            common = common_input(features, coarse_features, self.coarse_features)
            inputs = _Inputs(features, [common], [common])
        for one in (*inputs.coarse, *inputs.numbers):
            if len(one) != len(features):
                raise ShapeError(f"coarse features: expected {len(features)} rows, as many as features, got {len(one)}")
        return inputs

    def _coarse_scores(self, inputs: _Inputs) -> Float[Tensor, "batch coarse"]:
        layers = zip(inputs.coarse, layers_of(self.coarse), self._blocks, strict=True)
        found = [coarse_rows(own, layer, block, self.exchange) for own, layer, block in layers]
        if len(found) == 1:
            return found[0]
        return torch.cat(found, dim=1) if found else self.fine.weight.new_zeros(len(inputs.fine), 0)

    def _number_scores(self, inputs: _Inputs) -> Float[Tensor, "batch number 2"] | None:
        """The scores of numbers. All processes compute them alike, and their gradients are alike, too."""
        if self.numbers is None:
            return None
        layers = layers_of(self.numbers)
        scores = [layer(own.to(layer.weight.dtype)) for layer, own in zip(layers, inputs.numbers, strict=True)]
        return scores[0] if len(scores) == 1 else torch.cat(scores, dim=1)

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


class _Inputs(NamedTuple):
    """The features of the fine labels, and the inputs of the layers of coarse labels and of numbers."""

    fine: Float[Tensor, "batch feature"]
    coarse: list[Float[Tensor, "batch _"]]
    numbers: list[Float[Tensor, "batch _"]]


class _Layer(NamedTuple):
    """A layer with a row for each label.

    Attributes:
        whole: that of a whole head; None if there is none here.
        own: the rows of this process.
        rows: which ones these are, rising.
        labels: the number of rows of the whole layer.
        sent: the rows that this process sends for a whole head; of copies the first process sends its own.
    """

    whole: nn.Module | None
    own: nn.Linear
    rows: Int[Tensor, " row"]
    labels: int
    sent: Bool[Tensor, " row"]


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


def _gradients(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


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
