"""Guards of training: signals to stop, and NaN or infinite numbers."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import Any

import torch
from jaxtyping import UInt8
from torch import Tensor, nn

from finegraph.errors import NonFiniteError
from finegraph.nn import Network


class StopRequest:
    """A request to stop; `asked` is set by a signal and read in each step.

    Args:
        patience: the seconds in which further signals count as the first one. Launchers of several processes often
            forward a signal that the processes already received.
    """

    def __init__(self, patience: float = 0.0) -> None:
        self.asked = False
        self._patience = patience
        self._first = 0.0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Note a signal; the second one ends the step at once."""
        if not self.asked:
            self.asked, self._first = True, monotonic()
        elif monotonic() - self._first >= self._patience:
            raise KeyboardInterrupt


@contextmanager
def stop_request(patience: float = 0.0) -> Iterator[StopRequest]:
    """Turn SIGINT and SIGTERM into a request, for as long as the block runs; only in the main thread.

    A signal that the process was started to ignore, as SIGINT in the background of a shell, stays ignored.
    """
    request = StopRequest(patience)
    before: dict[int, Any] = {}
    try:
        for number in (int(signal.SIGINT), int(signal.SIGTERM)):
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, request)
    except ValueError:
        pass  # not the main thread: signals go elsewhere
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def first_bad_layer(network: Network, pixels: UInt8[Tensor, "batch channel height width"]) -> str | None:
    """The first layer whose output has NaN or infinity for these photos; None if all are finite."""
    bad_layers: list[str] = []

    def look(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not bad_layers and not bool(output.isfinite().all()):
                bad_layers.append(name)

        return hook

    leaves = [(name, module) for name, module in network.named_modules() if not any(module.children())]
    hooks = [module.register_forward_hook(look(name)) for name, module in leaves]
    # The statistics of normalisation layers move in a forward pass: this one must leave no trace.
    kept = {name: buffer.clone() for name, buffer in network.named_buffers()}
    try:
        with torch.no_grad():
            if network.shared_head is None:
                network.forward_with_auxiliary(pixels)
            else:
                network.shared_head.own_scores(*network.head_features(pixels))
    finally:
        for hook in hooks:
            hook.remove()
        with torch.no_grad():
            for name, buffer in network.named_buffers():
                buffer.copy_(kept[name])
    return bad_layers[0] if bad_layers else None


def first_bad_gradient(network: nn.Module) -> str | None:
    """The parameter nearest to the loss whose gradient has NaN or infinity; None if all are finite."""
    for name, parameter in reversed(list(network.named_parameters())):
        if parameter.grad is not None and not bool(parameter.grad.isfinite().all()):
            return name
    return None


def non_finite(step: int, what: str, layer: str | None, photos: Sequence[str]) -> NonFiniteError:
    """The error for a step, counted from 1, that met NaN or infinity."""
    where = f", first in {layer}" if layer else ""
    named = f" The photos: {', '.join(photos)}" if photos else ""
    return NonFiniteError(
        f"step {step}: {what} became NaN or infinite{where}. Nothing of this step was saved; the last checkpoint, if "
        f"there is one, is from before it. A lower learning rate often helps.{named}"
    )


def check_answers(
    network: Network, pixels: UInt8[Tensor, "batch channel height width"] | None, step: int, photos: Sequence[str]
) -> None:
    """Raise if the network answers photos with NaN or infinity, which can happen with finite weights."""
    if pixels is None or not len(pixels):
        return
    training = network.training
    network.eval()
    try:
        with torch.no_grad():
            shared = network.shared_head
            if shared is None:
                scores = network(pixels).fine_scores
            else:  # a posterior would need all processes
                scores = shared.own_scores(*network.head_features(pixels))
            finite = bool(scores.isfinite().all())
        if not finite:
            raise non_finite(step, "the answer", first_bad_layer(network, pixels), photos)
    finally:
        network.train(training)


def check_weights(network: nn.Module, step: int, photos: Sequence[str]) -> None:
    """Raise if a weight or a statistic is NaN or infinite, so that such a network is never saved."""
    for name, tensor in network.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise non_finite(step, f"the weight {name}", None, photos)
