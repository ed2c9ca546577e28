"""Results as JSON, and the table of photos."""

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.data.dataset import MISSING
from finegraph.data.samples import Sample, Samples
from finegraph.errors import GraphFileError, InputError
from finegraph.evaluation import Collector, EvaluationResult, TemperatureFit
from finegraph.evaluation.results import BadPhoto
from finegraph.evaluation.sample_results import COLUMNS, write_samples
from finegraph.evaluation.unknown_metrics import Unknown

GRAPH = fg.LabelGraph.from_table(
    {
        "=1+1": {"dish": "+x", "hot": True},
        "udon, 麺": {"dish": "noodles", "hot": True},
        "soba": {"dish": "noodles", "hot": None},
    }
)
PROBS = torch.tensor([[0.9, 0.06, 0.04], [0.2, 0.42, 0.38], [0.3, 0.3, 0.4]], dtype=torch.float64)


@pytest.fixture
def collector():
    collector = Collector(GRAPH, risk=0.15, scores=("kinds",))
    collector.add(fg.Posterior(GRAPH, PROBS.log()), torch.tensor([0, 2, MISSING]), None, torch.tensor([0, 1, 3]))
    return collector


@pytest.fixture
def result(collector):
    return dataclasses.replace(
        collector.result(),
        data="images.csv",
        bad_photos=(BadPhoto(path="c.jpg", reason="the file is empty"),),
        temperature_fit=TemperatureFit(temperature=1.5, photos=3, nll_before=1.0, nll_after=0.9),
        unknown=Unknown(
            score="kinds",
            threshold=0.5,
            kept=0.95,
            known_kept=None,
            photos=0,
            detected=None,
            false_positive_rate=None,
            auroc=None,
            fpr_at_kept=None,
            auroc_by_score={},
        ),
    )


class TestJson:
    def test_reads_back_equal(self, result, tmp_path):
        path = tmp_path / "result.json"
        result.write(path)
        assert EvaluationResult.read(path) == result
        content = json.loads(path.read_text(encoding="utf-8"))
        assert list(content)[:2] == ["format", "version"]
        assert (content["format"], content["version"]) == ("finegraph.evaluation", 1)
        assert content["per_class"] == {"=1+1": 1.0, "soba": 0.0}
        assert [path.name] == [entry.name for entry in tmp_path.iterdir()]

    def test_file_names_that_are_no_text(self, result, tmp_path):
        odd = dataclasses.replace(result, bad_photos=(BadPhoto(path="a\udcff.jpg", reason="麺"),))
        odd.write(tmp_path / "result.json")
        assert EvaluationResult.read(tmp_path / "result.json") == odd
        assert "麺" in (tmp_path / "result.json").read_text(encoding="utf-8")

    def test_contract_of_names(self, result):
        names = "top1 top5 kinds full_path inconsistency mistake_severity per_class calibration nll sure unknown"
        content = result.to_dict()
        assert set(names.split()) <= set(content)
        assert list(content["kinds"]) == list(GRAPH.kinds)
        assert {"risk", "realised_risk", "coverage"} <= set(content["sure"])
        assert list(content["calibration"]) == ["fine", *GRAPH.kinds]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"format": "finegraph.graph"}, "this is no evaluation result"),
            ({"version": 2}, "the evaluation result has version 2, expected 1; read it with"),
            ({"top1": None, "top6": 1.0}, "missing or unknown parts: .*'top6'"),
            ({"sure": {"risk": 0.1}}, "missing or unknown parts"),
            ({"calibration": 3}, "missing or unknown parts"),
        ],
    )
    def test_other_content_is_refused(self, result, tmp_path, change, message):
        path = tmp_path / "result.json"
        path.write_text(json.dumps({**result.to_dict(), **change}))
        with pytest.raises(InputError, match=message) as raised:
            EvaluationResult.read(path)
        assert str(raised.value).startswith(str(path))

    @pytest.mark.parametrize("text", ["", "[]", "{", "3", "[" * 100_000])
    def test_no_result_at_all(self, tmp_path, text):
        path = tmp_path / "result.json"
        path.write_text(text)
        with pytest.raises(InputError, match=r"result\.json: "):
            EvaluationResult.read(path)

    def test_nothing_is_infinite(self, result, tmp_path):
        with pytest.raises(ValueError, match="not JSON compliant"):
            dataclasses.replace(result, nll=float("inf")).write(tmp_path / "result.json")
        assert list(tmp_path.iterdir()) == []


class TestTable:
    @pytest.fixture
    def rows(self, collector, tmp_path):
        paths = ["-a.jpg", "b.jpg", "c.jpg", "d.jpg"]
        labels = ["=1+1", "soba", "soba", None]
        samples = Samples([Sample(Path(path), label) for path, label in zip(paths, labels, strict=True)])
        path = tmp_path / "samples.csv"
        write_samples(path, collector.samples(), samples, GRAPH, score="kinds", bad={"c.jpg": "=cmd() is no photo"})
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_columns(self, rows):
        kinds = [f"{name}:{kind}" for kind in GRAPH.kinds for name in ("predicted", "probability", "right")]
        assert list(rows[0]) == [*COLUMNS, *kinds]

    def test_a_right_answer(self, rows):
        row = rows[0]
        assert (row["path"], row["label"], row["predicted"]) == ("'-a.jpg", "'=1+1", "'=1+1")
        assert (row["right"], row["rank"], row["inconsistent"], row["error"]) == ("yes", "1", "no", "")
        assert float(row["probability"]) == pytest.approx(0.9)
        assert float(row["log_prob"]) == pytest.approx(np.log(0.9), abs=1e-5)
        assert (row["sure_kind"], row["sure_label"], row["sure_right"]) == ("", "'=1+1", "yes")
        assert (row["predicted:dish"], row["right:dish"]) == ("'+x", "yes")
        assert float(row["unknown_score"]) > 0

    def test_a_wrong_one(self, rows):
        row = rows[1]
        assert (row["predicted"], row["right"], row["rank"]) == ("udon, 麺", "no", "2")
        assert (row["right:dish"], row["right:hot"]) == ("yes", "")
        # What is known of hot is a single label, so an unknown parent can only be that: it is surely hot.
        assert (row["sure_kind"], row["sure_label"], row["sure_right"]) == ("hot", "yes", "")

    def test_a_photo_that_could_not_be_read(self, rows):
        filled = {name: value for name, value in rows[2].items() if value}
        assert filled == {"path": "c.jpg", "label": "soba", "error": "'=cmd() is no photo"}

    def test_a_photo_without_label(self, rows):
        row = rows[3]
        assert (row["path"], row["label"], row["right"], row["rank"], row["log_prob"]) == ("d.jpg", "", "", "", "")
        assert row["predicted"] == "soba"
        assert (row["sure_kind"], row["sure_right"]) == ("hot", "")

    def test_without_score(self, collector, tmp_path):
        path = tmp_path / "samples.csv"
        write_samples(path, collector.samples(), Samples([Sample(Path(str(n)), "soba") for n in range(4)]), GRAPH)
        with path.open(newline="", encoding="utf-8") as file:
            assert {row["unknown_score"] for row in csv.DictReader(file)} == {""}

    def test_cannot_be_written(self, collector, tmp_path):
        with pytest.raises(GraphFileError, match=r"cannot write .*samples\.csv"):
            write_samples(tmp_path / "no/samples.csv", collector.samples(), Samples([]), GRAPH)
