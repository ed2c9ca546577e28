"""The head and the loss in a plain torch loop: a small network of one's own on photos of the drawn menu.

python examples/torch_loop.py [EPOCHS]
"""

import sys

import numpy as np
import torch
from torch import nn

import finegraph as fg
from finegraph.data.menu import Menu

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
menu = Menu.of_size("small")
graph = menu.graph().only(["dish", "restaurant"])
photos = [photo for photo in menu.photos if photo.split == "train"][:: 1 if epochs > 1 else 40]
pixels = np.stack([np.asarray(menu.draw(photo).resize((64, 64))) for photo in photos])
images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
target = torch.tensor([graph.fine_index(photo.label) for photo in photos])

torch.manual_seed(0)
backbone = nn.Sequential(
    nn.Conv2d(3, 32, 5, stride=2),
    nn.ReLU(),
    nn.Conv2d(32, 64, 5, stride=2),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(4),
    nn.Flatten(),
)
head = fg.BipartiteHead(64 * 16, graph)
optimizer = torch.optim.AdamW([{"params": backbone.parameters(), "lr": 1e-3}, *head.parameter_groups(lr=1e-3)])
for epoch in range(epochs):
    total = 0.0
    for batch in torch.randperm(len(images)).split(32):
        posterior = head(backbone(images[batch]))
        loss = fg.joint_loss(posterior, target[batch], kind_weights=1 / len(graph.kinds))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
    print(f"epoch {epoch + 1}: loss {total / len(images):.3f}")

with torch.no_grad():
    posterior = head(backbone(images[:1]))
print("true:", photos[0].label)
print("best:", *posterior.top(3)[0], sep="\n  ")
print("sure:", posterior.answer(risk=0.2)[0])
