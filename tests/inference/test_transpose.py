import pytest
import torch

from finegraph.inference.sums.by_rows import contiguous_transpose


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (3, 5), (128, 201), (0, 4), (4, 0)])
def test_rows_become_columns_in_memory_of_their_own(shape, dtype):
    table = torch.randn(shape, dtype=dtype)
    before = table.clone()
    got = contiguous_transpose(table)
    assert got.is_contiguous()
    assert torch.equal(got, table.t())
    got.fill_(-1.0)
    assert torch.equal(table, before)


@pytest.mark.parametrize(
    "view", [lambda x: x.t(), lambda x: x[::2], lambda x: x[:, 1:4], lambda x: x[:1].expand(5, -1)]
)
def test_any_view_is_transposed(view):
    table = view(torch.randn(6, 8))
    got = contiguous_transpose(table)
    assert got.is_contiguous()
    assert torch.equal(got, table.t())
