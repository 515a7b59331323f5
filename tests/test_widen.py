"""A wider generator starts as the narrower one that it came from."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gpen_core.models.gpen import Generator
from training import checkpoints
from training.config import TrainingConfig
from training.train import Trainer
from training.widen import widen

SHAPE = {"size": 128, "style_dim": 16, "num_mlp_layers": 2}


def generator(seed: int, *, channel_multiplier: int, narrow: float, **changes: int) -> Generator:
    """Random in every part, so that no answer is right by being zero."""
    torch.manual_seed(seed)
    made = Generator(**(SHAPE | changes), channel_multiplier=channel_multiplier, narrow=narrow)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith((".bias", "noise.weight")):
                parameter.add_(0.1 * torch.randn_like(parameter))
    return made


@pytest.fixture(scope="module")
def narrow() -> Generator:
    return generator(1, channel_multiplier=1, narrow=0.0625)


@pytest.fixture(scope="module")
def pictures() -> torch.Tensor:
    return torch.rand(2, 3, SHAPE["size"], SHAPE["size"], generator=torch.Generator().manual_seed(3)) * 2 - 1


@pytest.mark.parametrize(("channel_multiplier", "share"), [(1, 0.0625), (2, 0.0625), (1, 0.125), (2, 0.09375)], ids=str)
def test_the_answer_stays(narrow, pictures, channel_multiplier, share):
    wide = generator(2, channel_multiplier=channel_multiplier, narrow=share)
    with torch.no_grad():
        before = narrow(pictures)
        assert (wide(pictures) - before).abs().max() > 0.1
        widen(narrow, wide)
        assert torch.allclose(wide(pictures), before, atol=1e-4, rtol=1e-4)


def test_of_the_same_widths_it_is_a_copy(narrow):
    same = generator(2, channel_multiplier=1, narrow=0.0625)
    widen(narrow, same)
    state = same.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in narrow.state_dict().items())


def test_new_channels_learn_from_the_first_step_on(narrow, pictures):
    wide = generator(2, channel_multiplier=2, narrow=0.0625)
    widen(narrow, wide)
    torch.autograd.backward(wide(pictures).square().mean())
    weight = wide.get_parameter("generator.convs.7.conv.weight")
    old, new = narrow.config.num_channels(64), wide.config.num_channels(64)
    assert new == 2 * old
    # What the old channels make of the new ones is nothing yet, and is about to change.
    unread = slice(old, new)
    assert not weight[0, :old, unread].any()
    assert weight.grad is not None
    assert weight.grad[0, :old, unread].abs().sum(dim=(0, 2, 3)).min() > 0


def test_narrower_or_other_networks_are_refused(narrow):
    with pytest.raises(ValueError, match="32 channels at 4 px, more than the 16"):
        widen(narrow, generator(2, channel_multiplier=1, narrow=0.03125))
    with pytest.raises(ValueError, match="num_mlp_layers"):
        widen(narrow, generator(2, channel_multiplier=1, narrow=0.0625, num_mlp_layers=3))


def test_a_run_starts_from_narrower_weights(narrow, pictures, tmp_path):
    file = tmp_path / "narrow.pt"
    checkpoints.save(file, {"params_ema": narrow.state_dict()})
    config = TrainingConfig(
        size=SHAPE["size"], channel_multiplier=2, narrow=0.0625, style_dim=16, num_mlp_layers=2, precision="fp32"
    )
    with torch.no_grad():
        answer = Trainer(replace(config, start_from=str(file))).generator(pictures)
        assert torch.allclose(answer, narrow(pictures), atol=1e-4, rtol=1e-4)
