"""How close a model brings degraded portraits back to the originals: `python -m benchmarks.quality --data FOLDER`.

The folder holds square portraits aligned to the FFHQ template. PSNR and SSIM tell about fidelity only: they punish
invented detail however convincing it is, and do not say how sharp a face looks.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from skimage import metrics

from benchmarks.degrade import LEVELS, DegradationLevel, degrade, truth_for
from benchmarks.report import print_machine, print_table, write_json
from gpen_core.batch import list_photos
from gpen_core.errors import GpenError
from gpen_core.faces.align import estimate_similarity, extract_crop, invert_affine, template_points
from gpen_core.faces.mask import EllipseMask
from gpen_core.options import RuntimeOptions
from gpen_core.photo.io import read_photo
from gpen_core.restorer import Restorer
from gpen_core.runtime.engine import CropRestorer
from gpen_core.types import Pixels

TEMPLATE = "ffhq"
SIZE_PX = 256
"""Side at which portraits are degraded and compared, whatever the model's own size."""
FACE_WEIGHT = 0.5
"""The face region is where the paste mask is above this: 46 % of the crop."""
# Some versions of scikit-image declare types and leave these functions without: Any suits all of them.
METRICS: Any = metrics


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """Means over portraits, in the face region, against the truth."""

    psnr: float
    """dB, all three channels together."""
    ssim: float


def read_portrait(path: Path) -> Pixels:
    """(SIZE_PX, SIZE_PX, 3) uint8 RGB, shrunk by area averaging.

    Raises:
        PhotoError: the file cannot be read.
        ValueError: it is not a square of SIZE_PX or more.
    """
    photo = read_photo(path)
    if photo.width != photo.height or photo.width < SIZE_PX:
        raise ValueError(f"{path} is {photo.width} x {photo.height} px, not a square of {SIZE_PX} px or more")
    small = cv2.resize(photo.pixels, (SIZE_PX, SIZE_PX), interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.uint8)


def face_region() -> npt.NDArray[np.bool_]:
    """(SIZE_PX, SIZE_PX): True where a restored face would be pasted at more than half weight."""
    return EllipseMask(TEMPLATE, SIZE_PX).weights(np.eye(2, 3), 0, 0, SIZE_PX, SIZE_PX) > FACE_WEIGHT


def restore_aligned(engine: CropRestorer, portraits: Sequence[Pixels]) -> list[Pixels]:
    """Portraits through the network alone: no detection, no paste-back, no keeping of tone.

    A model of SIZE_PX and the portraits' template gets them as they are; for any other they are warped, there and back.

    Raises:
        ValueError: the network gave numbers that are not finite.
    """
    affine = estimate_similarity(template_points(TEMPLATE, SIZE_PX), template_points(engine.template, engine.size))
    is_warped = (engine.template, engine.size) != (TEMPLATE, SIZE_PX)
    crops = [extract_crop(portrait, affine, engine.size) for portrait in portraits] if is_warped else portraits
    answers = [crop for crop in engine.restore_crops(crops, lambda done: None).crops if crop is not None]
    if len(answers) < len(crops):
        raise ValueError(f"{len(crops) - len(answers)} of {len(crops)} answers of the network are not finite")
    return [extract_crop(answer, invert_affine(affine), SIZE_PX) for answer in answers] if is_warped else answers


def score(truths: Sequence[Pixels], images: Sequence[Pixels]) -> Scores:
    """Compare pictures pairwise. SSIM as in Wang et al., 2004: Gaussian window of 1.5 px, mean of the channels."""
    region = face_region()
    ssim_window = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    psnrs, ssims = [], []
    for truth, image in zip(truths, images, strict=True):
        psnrs.append(METRICS.peak_signal_noise_ratio(truth[region], image[region], data_range=255))
        _, similarity = METRICS.structural_similarity(
            truth, image, channel_axis=2, data_range=255, full=True, **ssim_window
        )
        ssims.append(similarity[region].mean())
    return Scores(psnr=float(np.mean(psnrs)), ssim=float(np.mean(ssims)))


def score_level(engine: CropRestorer, portraits: Sequence[Pixels], level: DegradationLevel) -> tuple[Scores, Scores]:
    """Scores of the degraded and of the restored portraits. Each one's seed is its place in the sequence."""
    truths = [truth_for(portrait, level) for portrait in portraits]
    inputs = [degrade(portrait, level, seed) for seed, portrait in enumerate(portraits)]
    return score(truths, inputs), score(truths, restore_aligned(engine, inputs))


def table_row(name: str, before: Scores, after: Scores) -> list[str]:
    psnr = [f"{before.psnr:.2f}", f"{after.psnr:.2f}", f"{after.psnr - before.psnr:+.2f}"]
    ssim = [f"{before.ssim:.3f}", f"{after.ssim:.3f}", f"{after.ssim - before.ssim:+.3f}"]
    return [name, *psnr, *ssim]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="PSNR and SSIM of restored portraits.")
    parser.add_argument("--data", type=Path, required=True, help="folder of square portraits, FFHQ-aligned")
    parser.add_argument("--model", default="starter-256", help="name of a model (default: %(default)s)")
    parser.add_argument("--limit", type=int, help="take only this many portraits, the first by name")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    machine = print_machine()
    try:
        portraits = [read_portrait(path) for path in list_photos(arguments.data).photos[: arguments.limit]]
        engine = Restorer(runtime=RuntimeOptions(model=arguments.model)).crop_restorer
        print(f"{engine.model_name} on {engine.device_name}, {len(portraits)} portraits of {SIZE_PX} px, face region")
        scores = {name: score_level(engine, portraits, level) for name, level in LEVELS.items()}
    except (GpenError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error
    headings = ["strength", "PSNR in", "restored", "change", "SSIM in", "restored", "change"]
    print_table(headings, [table_row(name, *pair) for name, pair in scores.items()])
    levels = {name: {"input": asdict(before), "restored": asdict(after)} for name, (before, after) in scores.items()}
    figures = {"machine": machine, "model": engine.model_name, "num_portraits": len(portraits), "levels": levels}
    write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
