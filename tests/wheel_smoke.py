"""An installed wheel without extras: all files are in it, and what must work without extras does.

A head is trained in a loop of one's own, a run is trained by the command, and what needs an extra says which. Run by
`make wheel-test`.
"""

import subprocess
import sys
import tempfile
from importlib.metadata import requires
from pathlib import Path

import torch
from PIL import Image

import finegraph as fg

SOURCE = Path(__file__).resolve().parents[1] / "src" / "finegraph"
COMMAND = Path(sys.executable).with_name("finegraph")


def main() -> None:
    """Try it; the first thing that is wrong ends it with an error."""
    files = check_files()
    check_loop()
    check_missing_extras()
    with tempfile.TemporaryDirectory() as folder:
        check_commands(Path(folder))
    print(f"{len(files):,} files installed in {Path(fg.__file__).parent}; head, loss and commands work without extras")


def check_files() -> list[Path]:
    """Every file of the source is installed, and no package of an extra is."""
    installed = Path(fg.__file__).parent
    assert SOURCE not in (installed, *installed.parents), f"expected an installed package, got {installed}"
    files = [path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    missing = [str(path) for path in files if not (installed / path).is_file()]
    assert not missing, f"not in the wheel: {missing[:10]}"
    core = [each for each in requires("finegraph") or [] if "extra ==" not in each]
    assert not [each for each in core if each.startswith(("matplotlib", "scikit-learn", "onnx", "fastapi"))], core
    return files


def check_loop() -> None:
    """A head in a loop of one's own learns; its answers take evidence."""
    torch.manual_seed(0)
    graph = fg.LabelGraph.from_table(
        {
            "mapo tofu @ A": {"dish": "mapo tofu"},
            "mapo tofu @ B": {"dish": "mapo tofu"},
            "kung pao @ B": {"dish": "kung pao"},
        }
    )
    head = fg.BipartiteHead(4, graph)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.5)
    features, labels = torch.eye(4)[:3], torch.tensor([0, 1, 2])
    losses = []
    for _ in range(50):
        optimizer.zero_grad()
        loss = fg.joint_loss(head(features), labels) + 0.01 * fg.laplacian_prior(head)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0], losses
    posterior = head(features)
    assert posterior.log_probs().argmax(dim=1).tolist() == [0, 1, 2]
    assert posterior.given({"dish": "kung pao"}).log_probs().argmax(dim=1).tolist() == [2, 2, 2]


def check_missing_extras() -> None:
    """What needs an extra says which one."""
    try:
        fg.BipartiteClassifier  # noqa: B018
    except fg.errors.MissingExtraError as error:
        told = str(error)
    else:
        raise AssertionError("expected scikit-learn not to be installed")
    assert "finegraph[sklearn]" in told, told


def check_commands(folder: Path) -> None:
    """The command from photos to a model, an answer and a report."""
    run = folder / "run"
    for name, colour in (("red", (200, 30, 30)), ("blue", (30, 30, 200)), ("green", (30, 200, 30))):
        (folder / "photos" / name).mkdir(parents=True)
        for shade in range(4):
            photo = Image.new("RGB", (64, 64), tuple(part + 10 * shade for part in colour))
            photo.save(folder / "photos" / name / f"{shade}.png")
    menu = Path(fg.__file__).parent / "graph" / "sample_menu.csv"
    called("--version")
    assert "train" in called("--help")
    called("graph", "check", menu)
    assert "finegraph[plots]" in called("doctor")
    called("train", folder / "photos", "--run", run, "--size", "64")
    assert (run / "report.html").is_file(), "training ends with a report"
    called("predict", run, folder / "photos" / "red" / "0.png")
    called("report", run, "-o", folder / "report.html")
    refused = called("report", run, "--plots", folder / "plots", code=3)
    assert "finegraph[plots]" in refused, refused
    refused = called("serve", run, code=3)
    assert "finegraph[serve]" in refused, refused


def called(*arguments: object, code: int = 0) -> str:
    """What the command prints, with errors."""
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=600)
    told = done.stdout + done.stderr
    assert done.returncode == code, f"finegraph {arguments}: expected exit code {code}, got {done.returncode}: {told}"
    return told


if __name__ == "__main__":
    main()
