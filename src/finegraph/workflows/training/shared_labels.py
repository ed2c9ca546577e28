"""Training with the labels of the head sharded over the processes of a job (`nn/sharded_head.py`).

Each process makes the rows of its own labels; a whole head is nowhere while the network is trained. A head that is
fitted to features, to start from or again after an epoch, is fitted in the first process, which sends the rows; and at
the end the first one collects all rows for the model folder. So for these the whole head has to fit there.

Processes may form several groups (`shard_groups`), each of which holds all labels and takes photos of its own.
"""

from __future__ import annotations

from finegraph.errors import InputError, SettingsError
from finegraph.graph import LabelGraph
from finegraph.graph.label_shards import label_shard
from finegraph.nn import BipartiteHead, Network
from finegraph.nn.backbones import Backbone
from finegraph.nn.sharded_head import ShardedHead
from finegraph.training.distributed import Ranks
from finegraph.training.settings import TrainSettings


def check_shared(settings: TrainSettings, graph: LabelGraph, ranks: Ranks) -> None:
    """Refuse to shard labels where that is not built; settings that do not go with it are refused by themselves.

    Args:
        settings: of the training.
        graph: the label graph.
        ranks: this process among the others; all of them refuse.

    Raises:
        SettingsError: the graph has too few labels, or the processes cannot form these groups.
    """
    groups = settings.shard_groups
    if ranks.size % groups:
        raise SettingsError(
            f"shard_groups: {ranks.size} processes cannot form {groups} groups of the same size; start a multiple of "
            f"{groups} processes, or set shard_groups to a divisor of {ranks.size}"
        )
    try:
        for rank in range(ranks.size // groups):
            label_shard(graph, rank, ranks.size // groups)
    except InputError as error:
        raise SettingsError(f"shard_labels: {error}") from error


def head_part(
    graph: LabelGraph, ranks: Ranks, groups: int, backbone: Backbone, coarse_backbone: Backbone | None
) -> ShardedHead:
    """The rows of a new head that this process holds.

    Args:
        graph: the label graph.
        ranks: this process among the others.
        groups: how many groups they form.
        backbone: the network in front.
        coarse_backbone: that of the coarse labels, if they have one of their own.

    Raises:
        SettingsError: the network has auxiliary branches.
    """
    if backbone.auxiliary_sizes:
        raise SettingsError(
            "shard_labels: auxiliary branches have heads of their own, which cannot be sharded; set auxiliary to "
            "false, or leave out shard_labels"
        )
    own, others = ranks.grid(groups)
    size = None if coarse_backbone is None else coarse_backbone.feature_size
    return ShardedHead(backbone.feature_size, graph, own, coarse_features=size, groups=others)


def share_fitted(network: Network, head: ShardedHead, ranks: Ranks) -> None:
    """Shard the head that was fitted in the first process and is in the network there; all processes call it.

    Args:
        network: gets the shared head again.
        head: the rows of this process, which are changed in place: optimizer and checkpoints know them.
        ranks: this process among the others.
    """
    fitted = network.head if ranks.first else None
    assert fitted is None or isinstance(fitted, BipartiteHead)
    network.share_head(head)
    head.take_first(fitted)  # no doubt among its numbers: a whole network is trained on scores as the layers give them


def collect_head(network: Network) -> None:
    """Give the network of the first process the whole head; all processes call it, and the others keep their rows."""
    head = network.shared_head
    whole = None if head is None else head.whole_in_first()
    if whole is not None:
        network.put_head(whole, network.scaling)
