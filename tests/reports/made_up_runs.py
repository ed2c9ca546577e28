"""Runs with made-up answers, written by the code that evaluations are written with, without photos or a network."""

import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from finegraph.data.samples import Sample, Samples
from finegraph.evaluation import Collector
from finegraph.evaluation.details import DetailCollector, draw_order
from finegraph.evaluation.photo_pack import join_pictures
from finegraph.evaluation.sample_results import write_samples
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.training.records.run_folder import RunFolder
from finegraph.workflows.evaluation.report_details import FORMAT, VERSION, FoundDetails, write_details


def made_up_graph(fine=12, kinds=(("dish", 4), ("place", 3)), binary=1):
    """A graph of the wanted size, whose labels are numbered."""
    return LabelGraph.from_table(
        {
            f"fine {number}": {
                **{name: f"{name} {number * 7 // 3 % size}" for name, size in kinds},
                **{f"with {extra}": bool((number >> extra % 5) & 1) for extra in range(binary)},
            }
            for number in range(fine)
        }
    )


def picture(seed, side=112, grains=14):
    """A JPEG of about the size of a thumbnail of a real photo: 2.5 kB; with more grains it is sharper and larger."""
    grains = np.random.default_rng(seed).integers(0, 256, (grains, grains, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(grains).resize((side, side), Image.Resampling.BILINEAR).save(out, "JPEG", quality=60)
    return out.getvalue()


def make_run(
    folder,
    graph,
    photos=60,
    *,
    seed=0,
    head="bipartite",
    strength=2.5,
    name="test",
    similar=True,
    batch=256,
    sharp=False,
    settings=None,
):
    """A run folder with an evaluation; runs of other seeds have the same photos and truths, but other answers.

    Sharp pictures have the sizes of those of sharp photos: 3 kB, and 11 kB in the gallery.
    """
    samples = Samples(
        [
            Sample(Path(f"/data/photos/{number % len(graph):05d}/{number:06d}.jpg"), graph.fine[number % len(graph)])
            for number in range(photos)
        ],
        "made up",
    )
    labels = {label: number for number, label in enumerate(graph.fine)}
    truth = torch.tensor([labels[sample.label] for sample in samples])
    order = draw_order(samples)
    details = DetailCollector(graph, order, gallery=min(200, photos))
    collector = Collector(graph, details=details, scores=("kinds",))
    random = torch.Generator().manual_seed(seed)
    for start in range(0, photos, batch):
        fine = truth[start : start + batch]
        scores = torch.randn(len(fine), len(graph), generator=random)
        scores[torch.arange(len(fine)), fine] += strength
        coarse = {kind: torch.randn(len(fine), len(graph.labels(kind)), generator=random) for kind in graph.kinds}
        collector.add(Posterior(graph, scores, coarse), fine)
    result, results = collector.result(), collector.samples()
    run = RunFolder.create(folder)
    run.write_config({"data": "made up", "seed": seed, "head": head, "tune": "head", **(settings or {})})
    target = run.evaluations / name
    target.mkdir(parents=True)
    result.write(target / "result.json")
    write_samples(target / "samples.csv", results, samples, graph, score="kinds")
    write_details(target, _found(graph, samples, results, details.details(), head, similar, sharp), graph)
    return run.path


def _found(graph, samples, results, details, head, similar, sharp):
    """What an evaluation gathers, with made-up pictures; a few dozen different ones serve for all photos."""
    few = [picture(seed, grains=28 if sharp else 14) for seed in range(min(40, len(samples)))]
    large = [picture(seed, 288, 28) for seed in range(len(few))] if sharp else few
    arrays = {**results.arrays(), **details.arrays()}
    pictures = {
        "photos": join_pictures((number, few[number % len(few)]) for number in range(len(samples))),
        "gallery": join_pictures((number, large[number % len(few)]) for number in details.gallery.tolist()),
    }
    about = {
        "format": FORMAT,
        "version": VERSION,
        "model": {"network": "made up", "coarse_network": None, "head": head, "temperature": 1.0},
        "versions": {"finegraph": "0.0.0"},
        "training": {
            "photos": 5 * len(graph),
            "fine": [5 + number % 3 for number in range(len(graph))],
            "kinds": {kind: [7.0 + place for place in range(len(graph.labels(kind)))] for kind in graph.kinds},
        },
        "source_folder": "/data",
        "photos": [str(sample.path) for sample in samples],
        "similar": None,
        "notes": [],
    }
    if similar:
        about["similar"] = [{"path": f"/data/train/{n}.jpg", "label": graph.fine[n % len(graph)]} for n in range(8)]
        count = len(details.gallery)
        arrays["similar"] = (np.arange(count)[:, None] + np.arange(4)).astype(np.int32) % 8
        arrays["similar_distances"] = np.tile(np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32), (count, 1))
        pictures["similar"] = join_pictures((number, few[number % len(few)]) for number in range(8))
        about["training_photos"] = [
            {"path": f"/data/train/{turn}-{label}.jpg", "label": graph.fine[label]}
            for turn in range(2)
            for label in range(len(graph))
        ]
        shown = min(250, 2 * len(graph))  # as many as an evaluation has room for
        pictures["training"] = join_pictures((number, large[number % len(few)]) for number in range(shown))
    return FoundDetails(about=about, arrays=arrays, pictures=pictures)
