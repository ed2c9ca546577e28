"""Any network of timm in front of the head: `python examples/timm_network.py [NAME] [--random]`.

Needs the extra `timm` and a torchvision that fits the installed torch. `--random` takes no pretrained weights, which
timm would download.
"""

import sys

import timm
import torch

import finegraph as fg

name = next((word for word in sys.argv[1:] if not word.startswith("-")), "mobilenetv3_small_050")
backbone = timm.create_model(name, pretrained="--random" not in sys.argv, num_classes=0)
graph = fg.LabelGraph.from_table(
    {
        "herring gull": {"family": "gulls", "size": "large"},
        "common gull": {"family": "gulls", "size": "medium"},
        "barn owl": {"family": "owls", "size": "medium"},
    }
)
head = fg.BipartiteHead(backbone.num_features, graph)
network = torch.nn.Sequential(backbone, head)  # the posterior is what the last module returns

images, target = torch.randn(4, 3, 96, 96), torch.tensor([0, 1, 2, 0])
loss = fg.joint_loss(network(images), target)
loss.backward()
print(f"{name}: {backbone.num_features} features, loss {loss.item():.3f}")
