"""What we compare with: ModelScope's Apache-2.0 copy of the authors' generator, and its pipeline's steps around it.

`restore_as_modelscope` follows `modelscope.pipelines.cv.image_portrait_enhancement_pipeline` of modelscope 1.40 step
by step, without what both sides leave out: enlarging the background and the gate that compares identities.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import cast

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from gpen_core.faces.align import estimate_similarity, invert_affine, template_points
from gpen_core.models.checkpoint import infer_config, read_state_dict
from gpen_core.models.gpen import GeneratorConfig
from gpen_core.models.registry import STARTER
from gpen_core.models.weights import resolve_model
from gpen_core.types import DetectedFace, Pixels

INJECTION_GAIN = 0.7
"""0 in new generators."""


def published_config(size: int) -> GeneratorConfig:
    """The widths of the published model of `size` px."""
    return GeneratorConfig(size=size, channel_multiplier=1 if size <= 256 else 2, narrow=0.5 if size <= 256 else 1.0)


def reference_generator(config: GeneratorConfig) -> nn.Module:
    """ModelScope's `FullGenerator` with random weights, the same at every call, ready to run."""
    # Here, so that a process that measures our memory does without it.
    from modelscope.models.cv.image_portrait_enhancement.gpen import FullGenerator

    torch.manual_seed(0)
    widths = {"channel_multiplier": config.channel_multiplier, "narrow": config.narrow}
    model: nn.Module = FullGenerator(config.size, config.style_dim, config.num_mlp_layers, **widths)
    set_injection_gain(model)
    return model.requires_grad_(False).eval()


def reference_starter() -> nn.Module:
    """ModelScope's generator with the weights of our embedded model."""
    state = read_state_dict(resolve_model(STARTER.name).path)
    model = reference_generator(infer_config(state))
    model.load_state_dict(state)
    return model


def set_injection_gain(model: nn.Module) -> None:
    """Make a new generator's decoder see the encoder's features, as in every trained one."""
    for name, parameter in model.named_parameters():
        if name.endswith("noise.weight"):
            nn.init.constant_(parameter, INJECTION_GAIN)


def reference_forward(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The model as a function from faces to faces; it wraps its answer in a tuple."""

    def restore(x: Tensor) -> Tensor:
        with torch.inference_mode():
            return cast(Tensor, model(x)[0])

    return restore


def compiled_reference_forward(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The same, compiled at its first call."""
    compiled = torch.compile(model.forward, dynamic=False)

    def restore(x: Tensor) -> Tensor:
        with torch.inference_mode():
            return cast(Tensor, compiled(x)[0])

    return restore


def restore_as_modelscope(
    pixels: Pixels, faces: Sequence[DetectedFace], model: nn.Module, *, template: str, size: int, device: torch.device
) -> Pixels:
    """One face after another: cut out of the frame, restored, warped back over the whole frame with its mask.

    Args:
        pixels: (H, W, 3) RGB.
        faces: which to restore.
        model: ModelScope's generator.
        template: alignment the model needs. ModelScope's own is `gpen`.
        size: side of the crop.
        device: where the model is.
    """
    height, width = pixels.shape[:2]
    whole_mask = np.zeros(pixels.shape, dtype=np.float32)
    whole_faces = np.zeros(pixels.shape, dtype=np.uint8)
    for face in faces:
        affine = estimate_similarity(face.landmarks, template_points(template, size))
        crop = cv2.warpAffine(pixels, affine, (size, size), flags=cv2.INTER_AREA)
        restored = _restore_crop(np.asarray(crop, dtype=np.uint8), model, device)
        back = invert_affine(affine)
        mask = cv2.resize(paste_mask(), (size, size))
        mask = cv2.warpAffine(mask, back, (width, height), flags=cv2.INTER_AREA)
        pasted = cv2.warpAffine(restored, back, (width, height), flags=cv2.INTER_AREA)
        added = np.clip(mask - whole_mask, 0, 1)
        whole_mask[np.where(added > 0)] = mask[np.where(added > 0)]
        whole_faces[np.where(added > 0)] = pasted[np.where(added > 0)]
    blended = cv2.convertScaleAbs(pixels * (1 - whole_mask) + whole_faces * whole_mask)
    return np.asarray(blended, dtype=np.uint8)


def _restore_crop(crop: Pixels, model: nn.Module, device: torch.device) -> Pixels:
    x = (torch.from_numpy(crop).to(device) / 255.0 - 0.5) / 0.5
    with torch.inference_mode():
        y = model(x.permute(2, 0, 1).unsqueeze(0))[0]
    y = (y * 0.5 + 0.5).squeeze(0).permute(1, 2, 0)
    # As there: cut off, not rounded.
    levels: npt.NDArray[np.float32] = np.clip(y.float().cpu().numpy(), 0, 1) * 255.0
    return levels.astype(np.uint8)


@lru_cache(maxsize=1)
def paste_mask() -> npt.NDArray[np.float32]:
    """(512, 512, 3) soft box that ModelScope pastes a crop with."""
    mask = np.zeros((512, 512, 3), dtype=np.float32)
    cv2.rectangle(mask, (26, 26), (486, 486), (1, 1, 1), -1, cv2.LINE_AA)
    for _ in range(2):
        mask = cv2.GaussianBlur(mask, (101, 101), 4).astype(np.float32)
    return mask


def reference_detector(device: torch.device) -> Callable[[Pixels], object]:
    """ModelScope's RetinaFace-R50 with random weights, to time: it does all the work and finds nothing.

    Like there a photo beyond 1500 px is reduced to 1000 px first.
    """
    from modelscope.models.cv.image_portrait_enhancement.retinaface.detection import RetinaFaceDetection, cfg_re50
    from modelscope.models.cv.image_portrait_enhancement.retinaface.models.retinaface import RetinaFace

    weights = io.BytesIO()
    torch.save(RetinaFace(cfg=cfg_re50).state_dict(), weights)
    weights.seek(0)
    with _cudnn_as_it_was():
        detector = RetinaFaceDetection(weights, device)
    return partial(_detect, detector)


def _detect(detector: object, pixels: Pixels) -> object:
    with torch.inference_mode():
        return detector.detect(pixels, confidence_threshold=1.0)  # type: ignore[attr-defined]


@contextmanager
def _cudnn_as_it_was() -> Iterator[None]:
    """ModelScope's detector switches cuDNN's search for algorithms on for the whole process, ours included."""
    before = torch.backends.cudnn.benchmark
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
