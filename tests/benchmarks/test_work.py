"""The arithmetic of a face, against figures of others and against torch's own counter."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.reference import published_config
from benchmarks.work import flop_per_face, matrix_product
from gpen_core.models.gpen import Generator, GeneratorConfig


@pytest.mark.parametrize(("size", "gflop"), [(256, 17.4), (512, 276), (1024, 347), (2048, 420)])
def test_the_published_models_take_what_is_known_of_them(size, gflop):
    assert flop_per_face(published_config(size)) / 1e9 == pytest.approx(gflop, rel=0.004)


def test_torch_counts_the_same():
    config = GeneratorConfig(size=64, style_dim=8, num_mlp_layers=2, channel_multiplier=1, narrow=1 / 8)
    generator = Generator.from_config(config).requires_grad_(False)
    with FlopCounterMode(display=False) as counter:
        generator(torch.zeros(1, 3, 64, 64))
    # Besides, torch counts the styles' linear layers and the doubling of the small colour images.
    assert 0.97 < flop_per_face(config) / counter.get_total_flops() < 1.0


def test_the_matrix_product_is_what_its_count_says():
    run, flop = matrix_product(torch.device("cpu"), torch.float32)
    product = run()
    assert flop == 2 * product.shape[0] * product.shape[1] * 2048
