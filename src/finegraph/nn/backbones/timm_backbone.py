"""Any network of timm, if timm is installed.

timm needs torchvision, which must be built for the installed torch; so both are optional, and imported only when a
name like `timm:resnet18` asks for them. Features, preprocessing and the name of the last layer are timm's own.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from finegraph.errors import InputError, MissingExtraError, WeightsError, unknown_name
from finegraph.nn.backbones.backbone import Backbone, dropout_rate, layers_in
from finegraph.nn.backbones.preprocessing import Preprocessing


class TimmBackbone(Backbone):
    """A network of timm without its classifier."""

    min_size = 1
    inner: ClassVar[str] = "network."

    def __init__(self, name: str, *, pretrained: bool = False, dropout: float | None = None) -> None:
        """Make a network.

        Args:
            name: its name in timm, such as `resnet18`.
            pretrained: whether to use timm's weights, which timm downloads if necessary.
            dropout: the rate of the features in training; usually timm's own for the network.
        """
        super().__init__()
        timm = import_timm(name)
        if not timm.is_model(name):
            raise unknown_name("timm network", name, timm.list_models())
        options = {} if dropout is None else {"drop_rate": dropout_rate(dropout, 0.0)}
        self.network = _create(timm, name, pretrained, options)
        self.feature_size = int(getattr(self.network, "head_hidden_size", None) or self.network.num_features)
        self.preprocessing = _preprocessing(name, timm.data.resolve_model_data_config(self.network))
        layers = getattr(self.network, "default_cfg", {}).get("classifier") or ()
        layers = (layers,) if isinstance(layers, str) else tuple(layers)
        self.replaced = tuple(f"{layer}." for layer in layers)

    @property
    def layers(self) -> tuple[nn.Module, ...]:
        """The layers of timm's network that have weights."""
        return tuple(layer for layer in layers_in(self.network) if any(True for _ in layer.parameters()))

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch feature"]:
        """The features of normalised images."""
        self._check(images)
        features: Tensor = self.network(images)
        return features


def import_timm(name: str) -> Any:
    """The module timm, or an error that says why it does not import."""
    try:
        return import_module("timm")
    except (ImportError, RuntimeError) as error:  # torchvision beside a torch it was not built for: RuntimeError
        raise MissingExtraError(
            f"the network 'timm:{name}' needs timm and torchvision, which do not import here "
            f"({type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no reason'}); "
            "run: pip install 'finegraph[timm]', with a torchvision built for the installed torch"
        ) from error


def _create(timm: Any, name: str, pretrained: bool, options: dict[str, float]) -> Any:
    try:
        network = timm.create_model(name, pretrained=pretrained, num_classes=0, **options)
    except Exception as error:  # no network, no such weights, an option the network lacks: timm raises many kinds
        if not pretrained:
            raise
        raise WeightsError(
            f"timm could not get the weights of {name!r} ({type(error).__name__}); give a file of weights instead"
        ) from error
    assert isinstance(network, nn.Module)
    return network


def _preprocessing(name: str, config: dict[str, Any]) -> Preprocessing:
    channels, height, width = config["input_size"]
    if channels != 3 or height != width:
        raise InputError(f"timm:{name}: expected a network for square photos of 3 channels, got {config['input_size']}")
    return Preprocessing(
        size=height,
        resize=max(height, int(height / config["crop_pct"])),
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        interpolation=config["interpolation"],
    )
