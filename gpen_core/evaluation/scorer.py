"""The figures of one picture: which metrics apply, what they need, and how they are called in tables and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gpen_core.evaluation.metrics import color_shift, load_lpips, load_niqe, psnr, seam_change, sharpness, ssim
from gpen_core.evaluation.region import FACE_MASK, IDENTITY, face_region, mask_weights
from gpen_core.faces.paste import blend_patches, make_patch
from gpen_core.types import Pixels

Scores: TypeAlias = Mapping[str, float | None]
"""Figures by key; None where there is none."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure that a metric gives."""

    metric: str
    key: str
    """Its name in CSV and JSON."""
    heading: str
    """Its name in the table."""
    digits: int
    """After the point, in the table."""
    is_shown_change: bool = False
    """The table has the difference to the input beside it."""


FIGURES = (
    Figure("psnr", "psnr", "PSNR", 2, is_shown_change=True),
    Figure("ssim", "ssim", "SSIM", 3, is_shown_change=True),
    Figure("lpips", "lpips", "LPIPS", 3),
    Figure("niqe", "niqe", "NIQE", 2),
    Figure("sharpness", "sharpness", "sharpness", 0),
    Figure("sharpness", "relative_sharpness", "sharpness", 2),
    Figure("color", "color_shift", "colour", 2),
    Figure("color", "a_shift", "a", 2),
    Figure("color", "b_shift", "b", 2),
    Figure("seam", "seam", "seam", 2),
    Figure("seconds", "seconds", "s/face", 2),
    Figure("memory", "memory_mib", "MiB/face", 0),
)
MEANINGS = {
    "psnr": "PSNR: nearness to the truth in dB, over the face",
    "ssim": "SSIM: likeness to the truth, 1 at most, over the face",
    "lpips": "LPIPS: difference from the truth as people see it, whole crop, lower is better",
    "niqe": "NIQE: unnaturalness of the whole crop, lower is better",
    "sharpness": "sharpness: variance of the Laplacian over the face, noise included{relative}",
    "color": "colour: distance of the face's mean a, b (CIELAB) from the truth's; a, b: its mean direction",
    "seam": "seam: change of slope where the face fades into the photo, levels per px",
    "seconds": "s/face: seconds of the network, one face at a time",
    "memory": "MiB/face: peak beside program and weights, one face in a process of its own",
}


def figures_of(metric_names: Sequence[str], *, has_truth: bool) -> tuple[Figure, ...]:
    """What a table of these metrics shows: sharpness relative to the truth where there is one."""
    hidden = "sharpness" if has_truth else "relative_sharpness"
    return tuple(figure for figure in FIGURES if figure.metric in metric_names and figure.key != hidden)


def explain(metric_names: Sequence[str], *, has_truth: bool) -> str:
    """One line for people on each metric."""
    relative = ", in parts of the truth's" if has_truth else ""
    return "\n".join(MEANINGS[name].format(relative=relative) for name in metric_names)


def paste_crop(before: Pixels, restored: Pixels) -> Pixels:
    """A restored crop pasted into the crop it came from, as into a photo. (SIZE_PX, SIZE_PX, 3) uint8 RGB each."""
    patch = make_patch(before, restored, IDENTITY, FACE_MASK)
    return before if patch is None else blend_patches(before, [patch], [1.0])


class Scorer:
    """Measures pictures of the face region's size. Holds what the learned metrics have loaded."""

    def __init__(self, metric_names: Sequence[str]) -> None:
        """Load what the metrics need.

        Raises:
            GpenError: lpips is asked for and cannot be had.
        """
        self.notes: tuple[str, ...] = ()
        self._names = frozenset(metric_names)
        self._region = face_region()
        self._weights = mask_weights()
        self._lpips = load_lpips() if "lpips" in self._names else None
        self._niqe = None
        if "niqe" in self._names:
            try:
                self._niqe = load_niqe()
            except ImportError as error:
                self.notes = (f"NIQE was not measured: basicsr cannot be imported ({error}).",)

    def score(self, image: Pixels, before: Pixels, pasted: Pixels, truth: Pixels | None) -> dict[str, float | None]:
        """Every figure that is asked for and applies.

        Args:
            image: what is measured.
            before: what was restored.
            pasted: `before` with the face pasted into it.
            truth: the good picture, where there is one.
        """
        scores: dict[str, float | None] = {}
        if "niqe" in self._names:
            scores["niqe"] = None if self._niqe is None else self._niqe(image)
        if "sharpness" in self._names:
            scores["sharpness"] = sharpness(image, self._region)
        if "seam" in self._names:
            scores["seam"] = seam_change(before, pasted, self._weights)
        if truth is not None:
            scores |= self._compare(image, truth)
        return scores

    def _compare(self, image: Pixels, truth: Pixels) -> dict[str, float | None]:
        scores: dict[str, float | None] = {}
        if "psnr" in self._names:
            scores["psnr"] = psnr(truth, image, self._region)
        if "ssim" in self._names:
            scores["ssim"] = ssim(truth, image, self._region)
        if self._lpips is not None:
            scores["lpips"] = self._lpips(truth, image)
        if "sharpness" in self._names:
            of_truth = sharpness(truth, self._region)
            scores["relative_sharpness"] = sharpness(image, self._region) / of_truth if of_truth > 0 else None
        if "color" in self._names:
            a_shift, b_shift = color_shift(truth, image, self._region)
            scores |= {"color_shift": (a_shift**2 + b_shift**2) ** 0.5, "a_shift": a_shift, "b_shift": b_shift}
        return scores
