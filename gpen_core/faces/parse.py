"""Parsers: which pixels of a crop show the face and its hair."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.errors import WeightsError
from gpen_core.types import Pixels

PARSENET_SIZE_PX = 512
"""What ParseNet was trained at. It runs at smaller sizes too, but nothing shows that its outlines stay as good."""
# ParseNet's classes: background, skin, nose, glasses, two eyes, two brows, two ears, mouth, two lips, hair, hat,
# earring, necklace, neck, clothes. All but background, hat, necklace, neck and clothes are the face.
NUM_CLASSES = 19
FACE_CLASSES = (*range(1, 14), 15)


class FaceParser(Protocol):
    """Finds the outline of the face in an aligned crop."""

    @property
    def name(self) -> str: ...

    def parse(self, crop: Pixels) -> npt.NDArray[np.bool_]:
        """(P, P): where the crop ((S, S, 3) RGB), seen at P px, shows face or hair."""
        ...


class FacexlibParser:
    """ParseNet through facexlib, as the authors' pipeline uses it. One call at a time."""

    name = "parsenet"

    def __init__(self, weights: Path, device: str) -> None:
        """Load `ParseNet-latest.pth`, which is facexlib's `parsing_parsenet.pth`.

        Raises:
            WeightsError: the file does not fit.
        """
        import torch
        from facexlib.parsing.parsenet import ParseNet

        from gpen_core.models.checkpoint import describe_differences, read_state_dict

        state = read_state_dict(weights)
        network = ParseNet(in_size=PARSENET_SIZE_PX, out_size=PARSENET_SIZE_PX, parsing_ch=NUM_CLASSES)
        differences = describe_differences(network.state_dict(), state)
        if differences is not None:
            raise WeightsError(f"The file {weights} is not ParseNet: {differences}.")
        network.load_state_dict(state, strict=True)
        self._device = torch.device(device)
        self._network = network.requires_grad_(False).eval().to(self._device)
        self._lock = threading.Lock()

    def parse(self, crop: Pixels) -> npt.NDArray[np.bool_]:
        import torch

        is_larger = crop.shape[0] > PARSENET_SIZE_PX
        interpolation = cv2.INTER_AREA if is_larger else cv2.INTER_LINEAR
        seen = cv2.resize(crop, (PARSENET_SIZE_PX, PARSENET_SIZE_PX), interpolation=interpolation)
        batch = torch.from_numpy(seen).to(self._device).permute(2, 0, 1)[None].float() / 127.5 - 1.0
        with self._lock, torch.inference_mode():
            scores, _ = self._network(batch)
        classes = scores[0].argmax(dim=0).cpu().numpy()
        return np.isin(classes, FACE_CLASSES)
