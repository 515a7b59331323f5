from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from gpen_core.models import packed
from gpen_core.models.packed import GroupedProduct, PackedConv

NEEDS_ONEDNN = pytest.mark.skipif(not packed.can_pack(), reason="this torch was built without oneDNN")


@pytest.fixture(params=[pytest.param(True, marks=NEEDS_ONEDNN), False], ids=["onednn", "plain"])
def is_packing(request, monkeypatch):
    monkeypatch.setattr(packed, "can_pack", lambda: request.param)


def maps(*shape: int) -> torch.Tensor:
    return torch.randn(shape).contiguous(memory_format=torch.channels_last)


@pytest.mark.usefixtures("is_packing")
def test_products_are_those_of_each_group_whatever_the_number_of_places():
    matrices = torch.randn(9, 24, 40) / 5
    product = GroupedProduct(matrices)
    # oneDNN sorts weights in one way for many places and in another for few, and back.
    for rows, columns in [(2, 33), (1, 3), (2, 33)]:
        values = torch.randn(rows, columns, 9, 24)
        expected = torch.einsum("rcgi,gio->rcgo", values, matrices)
        assert product(values).shape == (rows, columns, 9, 40)
        assert torch.allclose(product(values), expected, atol=1e-5)


@pytest.mark.usefixtures("is_packing")
@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 0)])
def test_a_convolution_is_torchs_own_for_maps_of_any_size(stride, padding):
    weight, bias = torch.randn(48, 64, 3, 3) / 24, torch.randn(48)
    convolve = PackedConv(weight, bias, stride=stride, padding=padding)
    for side in (17, 5, 17):
        x = maps(1, 64, side, side)
        assert torch.allclose(convolve(x), F.conv2d(x, weight, bias, stride, padding), atol=1e-5)


@NEEDS_ONEDNN
def test_another_number_of_threads_sorts_the_weights_anew():
    weight, x, before = torch.randn(48, 64, 3, 3) / 24, maps(1, 64, 9, 9), torch.get_num_threads()
    convolve = PackedConv(weight, padding=1)
    try:
        for num_threads in (2, 1, 3):
            torch.set_num_threads(num_threads)
            assert torch.allclose(convolve(x), F.conv2d(x, weight, padding=1), atol=1e-5)
    finally:
        torch.set_num_threads(before)
