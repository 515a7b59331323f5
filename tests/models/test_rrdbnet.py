"""Which upscaler a file holds, and the network that basicsr builds of it."""

from __future__ import annotations

import sys

import pytest
import torch
from modelscope.models.cv.super_resolution.rrdbnet_arch import RRDBNet

from gpen_core.errors import WeightsError
from gpen_core.models.gpen import Generator
from gpen_core.models.rrdbnet import RrdbConfig, check_upscaler, infer_rrdb_config, load_rrdbnet
from tests.fakes import use_basicsr


def test_upscalers_are_known_by_their_tensors(tmp_path):
    path = tmp_path / "upscaler.pth"
    for scale, features, growth in ((2, 32, 32), (4, 16, 8), (2, 64, 16)):
        network = RRDBNet(3, 3, scale=scale, num_feat=features, num_block=2, num_grow_ch=growth)
        torch.save({"params_ema": network.state_dict(), "params": {}}, path)
        check_upscaler(path, scale)
        with pytest.raises(WeightsError, match=f"another scale than x{6 - scale}"):
            check_upscaler(path, 6 - scale)


def test_what_is_not_an_upscaler_is_refused(tmp_path):
    path = tmp_path / "upscaler.pth"
    state = RRDBNet(3, 3, num_feat=8, num_block=1, num_grow_ch=4).state_dict()
    del state["body.0.rdb2.conv3.bias"]
    torch.save(state, path)
    with pytest.raises(WeightsError, match=r"body\.0\.rdb2\.conv3\.bias is missing"):
        check_upscaler(path, 4)
    torch.save(Generator(32, style_dim=16, narrow=1 / 16).state_dict(), path)
    with pytest.raises(WeightsError, match="not an RRDBNet"):
        check_upscaler(path, 4)


def test_a_file_of_any_shape_is_built_and_gives_what_it_was_saved_from(monkeypatch, tmp_path):
    use_basicsr(monkeypatch)
    path = tmp_path / "mine.pth"
    for scale, channels in ((1, 48), (2, 12), (4, 3)):
        network = RRDBNet(3, 3, scale=scale, num_feat=12, num_block=1, num_grow_ch=4)
        assert network.conv_first.weight.shape[1] == channels
        torch.save(network.state_dict(), path)
        config = infer_rrdb_config(network.state_dict(), path)
        assert config == RrdbConfig(scale=scale, num_features=12, num_growth=4, num_blocks=1)
        x = torch.rand(1, 3, 8, 12)
        with torch.no_grad():
            assert torch.equal(load_rrdbnet(path)(x), network(x))


def test_without_basicsr_the_network_cannot_be_built_but_its_file_can_be_checked(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "basicsr", None)
    path = tmp_path / "upscaler.pth"
    torch.save(RRDBNet(3, 3, num_feat=8, num_block=1, num_grow_ch=4).state_dict(), path)
    check_upscaler(path, 4)
    with pytest.raises(ImportError, match="basicsr"):
        load_rrdbnet(path)


@pytest.mark.parametrize("scale", [1, 2, 4])
def test_the_halo_is_all_that_the_network_sees_and_no_more_than_needed(scale):
    network = RRDBNet(3, 3, scale=scale, num_feat=4, num_block=1, num_grow_ch=2).double()
    for parameter in network.parameters():
        torch.nn.init.constant_(parameter, 0.05)
    halo = RrdbConfig(scale=scale, num_features=4, num_growth=2, num_blocks=1).halo_px
    middle = 2 * halo
    x = torch.rand(1, 3, 8, 4 * halo, dtype=torch.float64)
    x.requires_grad_()
    network(x)[..., middle * scale].sum().backward()
    seen = torch.nonzero(x.grad.abs().sum((0, 1, 2)) > 0).flatten()
    assert middle - halo <= seen.min() and seen.max() <= middle + halo
    assert seen.min() - (middle - halo) <= 3 * 4 // scale


def test_basicsr_itself_builds_the_same_network(tmp_path):
    """The real package; the tests above have the same network from modelscope in its place."""
    try:
        from gpen_core.models.basicsr import import_basicsr

        import_basicsr("archs.rrdbnet_arch")
    except ImportError as error:
        pytest.skip(f"basicsr cannot be imported: {error}")
    path = tmp_path / "mine.pth"
    network = RRDBNet(3, 3, scale=2, num_feat=12, num_block=1, num_grow_ch=4)
    torch.save({"params_ema": network.state_dict()}, path)
    loaded = load_rrdbnet(path)
    assert type(loaded).__module__ == "basicsr.archs.rrdbnet_arch"
    x = torch.rand(1, 3, 8, 12)
    with torch.no_grad():
        assert torch.equal(loaded(x), network(x))
