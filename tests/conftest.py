"""Shapes and types in signatures are checked while tests run; torch uses one thread."""

from jaxtyping import install_import_hook

install_import_hook(["finegraph.inference", "finegraph.nn"], "beartype.beartype")

import jaxtyping  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture
def unchecked():
    """Without the checks of shapes: to see our own errors for wrong ones, and for speed."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
