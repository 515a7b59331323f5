"""Read a weights file safely and fit it to a generator, or say in one sentence why it does not fit."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gpen_core.errors import WeightsError
from gpen_core.models.gpen import Generator, GeneratorConfig

# Names under which training code keeps the state dict that is meant for inference, the averaged one first.
WRAPPER_KEYS = ("params_ema", "g_ema", "state_dict", "params", "generator_ema")
# Prefixes left by DataParallel and torch.compile.
KEY_PREFIXES = ("module.", "_orig_mod.")
NUM_DIFFERENCES_SHOWN = 3


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Tensors of a `.safetensors`, `.pth` or `.pt` file, on the CPU, by their bare names.

    Never runs code from the file. Wrapped (`params_ema`, `g_ema`, `state_dict`) and prefixed (`module.`) files are
    unwrapped.

    Raises:
        WeightsError: the file is missing, damaged, or holds no tensors.
    """
    if not path.is_file():
        raise WeightsError(f"There is no weights file {path}; check the path.")
    try:
        content = _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()
        raise WeightsError(
            f"The weights file {path} cannot be read ({reason[0] if reason else type(error).__name__}); "
            "it is damaged or of another kind, so fetch it again."
        ) from error
    return _unwrap(content, path)


def _read_safetensors(path: Path) -> Any:
    return load_file(path, device="cpu")


def _read_pickle(path: Path) -> Any:
    # Mapped, so that weights are read when they are used and take no memory of their own. Files from before torch 1.6
    # are no archives, and cannot be.
    return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))


def _unwrap(content: Any, path: Path) -> dict[str, Tensor]:
    while isinstance(content, Mapping):
        inner = next((content[key] for key in WRAPPER_KEYS if isinstance(content.get(key), Mapping)), None)
        if inner is None:
            break
        content = inner
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise WeightsError(f"The file {path} holds no table of tensors, so it is not a weights file.")
    return {_bare_name(str(key)): value for key, value in content.items()}


def _bare_name(key: str) -> str:
    for prefix in KEY_PREFIXES:
        key = key.removeprefix(prefix)
    return key


def infer_config(state: Mapping[str, Tensor]) -> GeneratorConfig:
    """The generator that a state dict belongs to, from its names and shapes.

    Raises:
        WeightsError: a tensor that every GPEN generator has is missing or has an impossible shape.
    """
    try:
        num_stages = sum(1 for key in state if key.startswith("ecd") and key.endswith(".0.0.kernel"))
        size = 2 ** (num_stages + 2)
        num_coarse_channels = state["generator.input.input"].shape[1]
        num_fine_channels = state["ecd0.0.0.weight"].shape[0]
        style_dim = state["generator.style.1.weight"].shape[1]
    except (KeyError, IndexError) as error:
        raise WeightsError(f"The file is not a GPEN generator: it has no usable tensor {error}.") from error
    num_mlp_layers = sum(1 for key in state if key.startswith("generator.style.") and key.endswith(".weight"))
    narrow = num_coarse_channels / 512
    # Below 64 px no level's width depends on the multiplier, so a file that small cannot tell.
    channel_multiplier = max(1, round(num_fine_channels * size / (16384 * narrow))) if size >= 64 else 2
    return GeneratorConfig(
        size=size,
        style_dim=style_dim,
        num_mlp_layers=num_mlp_layers,
        channel_multiplier=channel_multiplier,
        narrow=narrow,
    )


def describe_differences(expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> str | None:
    """One phrase naming the first few tensors that are missing, unknown or of another shape; None where all fit."""
    missing = [f"{key} is missing" for key in expected if key not in found]
    unknown = [f"{key} is unknown" for key in found if key not in expected]
    reshaped = [
        f"{key} is {tuple(found[key].shape)} where {tuple(expected[key].shape)} is needed"
        for key in expected
        if key in found and found[key].shape != expected[key].shape
    ]
    differences = missing + unknown + reshaped
    if not differences:
        return None
    rest = len(differences) - NUM_DIFFERENCES_SHOWN
    return "; ".join(differences[:NUM_DIFFERENCES_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")


def build_generator(state: Mapping[str, Tensor]) -> Generator:
    """A float32 generator in eval mode holding exactly the tensors of `state`.

    Raises:
        WeightsError: names or shapes differ from those of a GPEN generator.
    """
    config = infer_config(state)
    with _UnfilledWeights():
        generator = Generator.from_config(config)
    differences = describe_differences(generator.state_dict(), state)
    if differences is not None:
        raise WeightsError(f"The file is not a GPEN generator of {config.size} px: {differences}.")
    generator.load_state_dict({key: value.float() for key, value in state.items()}, strict=True, assign=True)
    return generator.requires_grad_(False).eval()


class _UnfilledWeights(TorchFunctionMode):
    """Inside, the random numbers that weights begin with are not drawn: they are about to be replaced.

    Building on the device "meta" would do as well, but makes torch load two seconds' worth of itself.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return (torch.empty if func is torch.randn else func)(*args, **(kwargs or {}))


def load_generator(path: Path, expected_size: int | None = None) -> Generator:
    """Read `path` and build its generator.

    Args:
        path: weights file.
        expected_size: side in px that the caller counts on; None takes what the file says.

    Raises:
        WeightsError: the file cannot be read, is no GPEN generator, or has another size.
    """
    try:
        generator = build_generator(read_state_dict(path))
    except WeightsError as error:
        if str(path) in str(error):
            raise
        raise WeightsError(f"{path}: {error}") from error
    if expected_size is not None and generator.size != expected_size:
        raise WeightsError(
            f"{path} holds a generator of {generator.size} px, but the chosen model has {expected_size} px; "
            "choose the model that belongs to the file, or the file that belongs to the model."
        )
    return generator
