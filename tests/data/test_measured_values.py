"""Values that were measured on single photos."""

import numpy as np
import pytest
import torch

from finegraph import LabelGraph
from finegraph.data.checks.photo_check import label_findings
from finegraph.data.dataset import Item, collate, training_targets
from finegraph.data.layouts.manifest import read_manifest
from finegraph.data.measured_values import measured_values
from finegraph.errors import DataError, DataFileError

GRAPH = LabelGraph.from_table(
    {"mapo": {"dish": "tofu", "mass": 300, "price": 12}, "ramen": {"dish": "noodles", "mass": None, "price": 9}},
    {"mass": "log number, g", "price": "number"},
)


@pytest.fixture
def manifest(tmp_path):
    def write(text):
        path = tmp_path / "images.csv"
        path.write_text(text)
        return path

    return write


def test_typed_columns_are_values_of_the_samples(manifest):
    samples = read_manifest(manifest('path,label,dish,"mass [log number, g]"\n1.jpg,mapo,tofu,310 g\n2.jpg,ramen,,\n'))
    assert [dict(sample.values) for sample in samples] == [{"mass": 310.0}, {}]
    assert (samples.kinds, samples.numbers) == (("dish",), ("mass",))
    assert measured_values(samples, GRAPH)["mass"].tolist() == pytest.approx([310, np.nan], nan_ok=True)
    assert samples.without_kinds().numbers == ()


def test_a_column_named_like_a_number_of_the_graph_holds_values(manifest):
    samples = read_manifest(manifest("path,label,price\n1.jpg,mapo,12.5\n2.jpg,ramen,\n3.jpg,ramen,1e1\n"))
    found = measured_values(samples, GRAPH)
    assert list(found) == ["price"]
    assert found["price"].tolist() == pytest.approx([12.5, np.nan, 10], nan_ok=True)
    assert not [one for one in label_findings(samples, {}, GRAPH) if one.rule in ("unknown-kind", "bad-value")]


def test_targets_of_training_hold_them(manifest):
    text = "path,label,dish,price,mass\n1.jpg,mapo,tofu,12.5,\n2.jpg,ramen,,,\n"
    fine, targets = training_targets(read_manifest(manifest(text)), GRAPH)
    assert fine.tolist() == [0, 1]
    assert targets.keys() == {"dish", "price"}  # of a number that was never measured there is nothing to say
    assert targets["price"].tolist() == pytest.approx([12.5, np.nan], nan_ok=True)
    items = [
        Item(torch.zeros(3, 2, 2), 0, {"dish": 0, "price": 12.5}, 0),
        Item(torch.zeros(3, 2, 2), 1, {"dish": 1, "price": np.nan}, 1),
    ]
    batch = collate(items)
    assert batch.kinds["price"].dtype == torch.float64
    assert batch.kinds["dish"].dtype == torch.int64


def test_faults_with_lines(manifest):
    text = "path,label,price [number],heat [mild < hot]\n1.jpg,mapo,cheap,hto\n2.jpg,mapo,1 +- 2,hot\n3.jpg,mapo,inf,\n"
    with pytest.raises(DataFileError) as caught:
        read_manifest(manifest(text))
    found = [(fault.line, fault.column, fault.rule) for fault in caught.value.faults]
    assert sorted(found) == [
        (2, "heat", "undeclared-label"),
        (2, "price", "no-number"),
        (3, "price", "bad-value"),
        (4, "price", "bad-value"),
    ]


def test_faults_against_the_graph_come_together(manifest):
    samples = read_manifest(manifest("path,label,price,mass\n1.jpg,mapo,cheap,-3\n2.jpg,ramen,12 EUR,1 kg\n"))
    with pytest.raises(DataError) as caught:
        measured_values(samples, GRAPH)
    assert len(str(caught.value).splitlines()) == 5
    findings = {one.rule: one for one in label_findings(samples, {}, GRAPH)}
    assert findings["bad-value"].severity == "error"
    typed = read_manifest(manifest("path,label,weight [number]\n1.jpg,mapo,3\n"))
    assert "unknown-number" in {one.rule for one in label_findings(typed, {}, GRAPH)}


@pytest.mark.parametrize(
    ("header", "rule"),
    [
        ("mass [log number, kg]", "unit-differs"),
        ("mass [number, g]", "scale-differs"),
        ("mass [number]", "scale-differs"),
    ],
)
def test_a_header_with_another_unit_or_scale_than_the_graph_is_a_fault(manifest, header, rule):
    samples = read_manifest(manifest(f'path,label,"{header}"\n1.jpg,mapo,0.3\n'))
    with pytest.raises(DataFileError) as caught:
        measured_values(samples[:], GRAPH)
    (fault,) = caught.value.faults
    assert (fault.line, fault.column, fault.rule) == (1, "mass", rule)
    assert f"the photos have {header!r}, the graph 'mass [log number, g]'" in str(caught.value)
    assert "images.csv:1: " in str(caught.value)


def test_a_header_may_leave_the_unit_out(manifest):
    samples = read_manifest(manifest("path,label,mass [log number]\n1.jpg,mapo,310\n"))
    assert measured_values(samples, GRAPH)["mass"].tolist() == [310]


def test_faults_of_untyped_columns_have_line_and_column(manifest):
    text = "path,label,price,mass\n1.jpg,mapo,12 +- 2,300\n2.jpg,mapo,,1..2\n3.jpg,ramen,12,1 kg\n4.jpg,ramen,x,\n"
    samples = read_manifest(manifest(text))
    with pytest.raises(DataFileError) as caught:
        measured_values(samples, GRAPH)
    assert [(fault.line, fault.column, fault.rule) for fault in caught.value.faults] == [
        (2, "price", "bad-value"),
        (3, "mass", "bad-value"),
        (4, "mass", "unit-differs"),
        (5, "price", "no-number"),
    ]
    assert "images.csv:2: column 'price': value '12 +- 2': a photo has a value without a spread" in str(caught.value)
