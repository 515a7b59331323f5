from __future__ import annotations

import pickle
import warnings
import zipfile

import pytest
import torch
from safetensors.torch import save_file

from gpen_core.errors import WeightsError
from gpen_core.models.checkpoint import infer_config, load_generator, read_state_dict
from gpen_core.models.gpen import Generator, GeneratorConfig


@pytest.fixture
def tiny() -> Generator:
    return Generator(64, style_dim=16, num_mlp_layers=3, channel_multiplier=1, narrow=1 / 16).eval()


def output_of(generator: Generator) -> torch.Tensor:
    with torch.inference_mode():
        return generator(torch.linspace(-1, 1, 3 * 64 * 64).view(1, 3, 64, 64))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"params_ema": state, "params": {"other": torch.zeros(1)}},
        lambda state: {"g_ema": state, "iteration": 7},
        lambda state: {"state_dict": {f"module.{key}": value for key, value in state.items()}},
        lambda state: {f"_orig_mod.{key}": value for key, value in state.items()},
    ],
    ids=["bare", "params_ema", "g_ema", "state_dict+module", "compiled"],
)
def test_wrapped_files_load(tiny, tmp_path, wrap):
    path = tmp_path / "weights.pth"
    torch.save(wrap(tiny.state_dict()), path)
    assert torch.equal(output_of(load_generator(path)), output_of(tiny))


def test_safetensors_in_half_precision_load_as_fp32(tiny, tmp_path):
    path = tmp_path / "weights.safetensors"
    save_file({key: value.half() for key, value in tiny.state_dict().items()}, path)
    loaded = load_generator(path)
    assert all(value.dtype == torch.float32 for value in loaded.state_dict().values())
    assert (output_of(loaded) - output_of(tiny)).abs().max() < 0.05


@pytest.mark.parametrize(
    "config",
    [
        GeneratorConfig(size=64, style_dim=16, num_mlp_layers=3, channel_multiplier=1, narrow=1 / 16),
        GeneratorConfig(size=256, channel_multiplier=1, narrow=0.5),
        GeneratorConfig(size=256, channel_multiplier=1, narrow=0.25),
        GeneratorConfig(size=512),
        GeneratorConfig(size=1024),
        GeneratorConfig(size=2048),
    ],
    ids=str,
)
def test_the_file_says_what_generator_it_holds(config):
    with torch.device("meta"):
        state = Generator.from_config(config).state_dict()
    assert infer_config(state) == config


def test_a_wrong_file_is_named_with_what_differs(tiny, tmp_path):
    state = tiny.state_dict()
    del state["generator.conv1.noise.weight"]
    state["generator.surplus"] = torch.zeros(2)
    path = tmp_path / "wrong.pth"
    torch.save(state, path)
    with pytest.raises(WeightsError) as caught:
        load_generator(path)
    message = str(caught.value)
    assert str(path) in message
    assert "generator.conv1.noise.weight is missing" in message
    assert "generator.surplus is unknown" in message
    assert "\n" not in message


def test_a_file_of_another_network_is_refused(tmp_path):
    path = tmp_path / "resnet.pth"
    torch.save(torch.nn.Linear(2, 2).state_dict(), path)
    with pytest.raises(WeightsError, match="not a GPEN generator"):
        load_generator(path)


def test_a_file_of_another_size_is_refused(tiny, tmp_path):
    path = tmp_path / "weights.pth"
    torch.save(tiny.state_dict(), path)
    with pytest.raises(WeightsError, match=r"64 px.*512 px"):
        load_generator(path, expected_size=512)


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", b"PK\x03\x04" + b"\0" * 100])
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_a_damaged_file_is_one_sentence(tmp_path, content, suffix):
    path = tmp_path / f"broken{suffix}"
    path.write_bytes(content)
    with pytest.raises(WeightsError) as caught:
        read_state_dict(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


class Trap:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


def test_code_in_a_file_is_never_run(tmp_path):
    marker, path = tmp_path / "was-run", tmp_path / "evil.pth"
    torch.save({"state_dict": Trap(marker)}, path)
    with pytest.raises(WeightsError):
        read_state_dict(path)
    assert not marker.exists()
    path.write_bytes(pickle.dumps(Trap(marker)))
    with pytest.raises(WeightsError):
        read_state_dict(path)
    assert not marker.exists()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(WeightsError, match=r"no weights file .*absent\.pth"):
        read_state_dict(tmp_path / "absent.pth")


def test_a_file_saved_on_a_gpu_loads_without_one(tiny, tmp_path):
    saved, path = tmp_path / "saved.pth", tmp_path / "from-gpu.pth"
    torch.save(tiny.state_dict(), saved)
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(path, "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith("data.pkl"):
                # The tag of every tensor's storage: a length and the device's name.
                assert b"X\x03\x00\x00\x00cpu" in content
                content = content.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
            target.writestr(entry, content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load_generator(path)
    assert torch.equal(output_of(loaded), output_of(tiny))
