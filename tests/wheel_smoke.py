"""An installed wheel without extras: all files are in it; head, loss and command work. Run by `make wheel-test`."""

import subprocess
import sys
from pathlib import Path

import torch

import finegraph as fg

SOURCE = Path(__file__).resolve().parents[1] / "src" / "finegraph"


def main() -> None:
    """Try it; the first thing that is wrong ends it with an error."""
    installed = Path(fg.__file__).parent
    assert SOURCE not in (installed, *installed.parents), f"expected an installed package, got {installed}"
    files = [path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    missing = [str(path) for path in files if not (installed / path).is_file()]
    assert not missing, f"not in the wheel: {missing[:10]}"

    graph = fg.LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
    head = fg.BipartiteHead(4, graph)
    loss = fg.joint_loss(head(torch.eye(4)[:3]), torch.tensor([0, 1, 2])) + fg.laplacian_prior(head)
    loss.backward()
    assert torch.isfinite(head.fine.weight.grad).all()

    command = Path(sys.executable).with_name("finegraph")
    for arguments in (["--version"], ["--help"], ["graph", "check", str(installed / "graph" / "sample_menu.csv")]):
        subprocess.run([command, *arguments], check=True, stdout=subprocess.DEVNULL)
    print(f"{len(files):,} files installed in {installed}; head, loss and command work")


if __name__ == "__main__":
    main()
