"""Features as columns: exact changes of coordinates."""

from __future__ import annotations

import pytest
import torch

from finegraph.model.fitting.span import span_of


def evenly(count):
    return torch.full((count,), 1 / count, dtype=torch.float64)


@pytest.mark.parametrize(("samples", "features"), [(30, 5), (5, 30), (1, 4), (4, 4)])
def test_rows_and_weights_act_alike(samples, features):
    torch.manual_seed(samples)
    matrix = torch.randn(samples, features, dtype=torch.float64) + 3
    span = span_of(matrix, evenly(samples))
    columns = span.columns(matrix)
    rows = torch.randn(7, columns.shape[1], dtype=torch.float64)
    weight, bias = span.weights(rows)
    assert weight.shape == (7, features)
    assert torch.allclose(columns @ rows.t(), matrix @ weight.t() + bias, atol=1e-10)
    assert torch.allclose(span.rows(weight, bias), rows, atol=1e-10)
    assert torch.allclose(weight.norm(), rows[:, :-1].norm())  # so the prior is the same


def test_few_samples_leave_few_columns():
    matrix = torch.randn(5, 30, dtype=torch.float64)
    assert span_of(matrix, evenly(5)).columns(matrix).shape == (5, 6)
    assert span_of(matrix.t(), evenly(30)).columns(matrix.t()).shape == (30, 6)


def test_features_that_are_inside_stay_as_they_are():
    matrix = torch.randn(5, 30, dtype=torch.float64)
    span = span_of(matrix, evenly(5))
    inside = span.inside(matrix)
    assert torch.equal(span.of_inside().columns(inside), span.columns(matrix))
    tall = matrix.t()
    span = span_of(tall, evenly(30))
    assert torch.equal(span.of_inside().columns(span.inside(tall)), span.columns(tall))


def test_samples_that_are_all_the_same():
    matrix = torch.ones(3, 8, dtype=torch.float64)
    span = span_of(matrix, evenly(3))
    assert torch.equal(span.columns(matrix), torch.tensor([[0.0, 0.0, 0.0, 1.0]] * 3, dtype=torch.float64))


def test_weights_count_as_copies():
    matrix = torch.randn(6, 3, dtype=torch.float64)
    weight = torch.tensor([2.0, 0.0, 1.0, 1.0, 3.0, 1.0], dtype=torch.float64)
    copies = matrix.repeat_interleave(weight.long(), dim=0)
    one, two = span_of(matrix, weight / 8), span_of(copies, evenly(8))
    assert torch.allclose(one.mean, two.mean)
    assert one.constant == pytest.approx(two.constant)
