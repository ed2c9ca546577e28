"""No answer from what is no number: a sample with NaN or infinite scores is named instead.

Probabilities stay plain tensors, NaN where they are, so that compiled programs have no branch; whoever asks for words
asks here first.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from finegraph.errors import InputError

SAMPLE: Callable[[int], str] = "sample {}".format
"""What samples are called in messages, unless the caller knows better."""


def refuse_nan(log_probs: Tensor, name_of: Callable[[int], str] = SAMPLE) -> None:
    """Raise where a sample has no probabilities.

    Args:
        log_probs: (batch, label).
        name_of: what to call a sample.

    Raises:
        InputError: naming the first of them.
    """
    amiss = log_probs.detach().isnan().any(dim=1)
    if not bool(amiss.any()):
        return
    number = int(amiss.nonzero()[0])
    raise InputError(
        f"{name_of(number)}: there is no answer, since its scores are NaN or infinite; look for NaN or infinity in its "
        "features and in the weights; in float16, scores above 65,504 become infinite: use float32 or bfloat16 there"
    )
