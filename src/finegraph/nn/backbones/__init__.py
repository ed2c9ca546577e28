"""Networks that turn photos into features."""

from finegraph.nn.backbones.backbone import Backbone
from finegraph.nn.backbones.build import BACKBONES, build_backbone
from finegraph.nn.backbones.preprocessing import Preprocessing
from finegraph.nn.backbones.weights import load_weights

__all__ = ["BACKBONES", "Backbone", "Preprocessing", "build_backbone", "load_weights"]
