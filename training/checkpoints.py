"""Files of a run: everything needed to go on, and the averaged weights alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def save(path: Path, content: dict[str, Any]) -> None:
    """Write under another name first, so that a crash never leaves half a file."""
    temporary = path.with_suffix(".part")
    torch.save(content, temporary)
    temporary.replace(path)


def load(path: Path) -> dict[str, Any]:
    """Content of a file of ours. Runs no code from it.

    Raises:
        ValueError: it does not exist or holds something else.
    """
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")
    content = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(content, dict):
        raise ValueError(f"{path} is no checkpoint of training")
    return content


def copy_state(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in state.items()}
