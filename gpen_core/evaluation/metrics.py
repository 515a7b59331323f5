"""What is measured, each a function of pictures. Pictures are (H, W, 3) uint8 RGB; a region is (H, W) bool."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt
from skimage import color as skimage_color
from skimage import metrics as skimage_metrics

from gpen_core.errors import OptionError, WeightsError
from gpen_core.models.basicsr import import_basicsr
from gpen_core.photo.color import luma
from gpen_core.types import Pixels

Region: TypeAlias = npt.NDArray[np.bool_]
# Some versions of scikit-image declare types and leave these functions without: Any suits all of them.
_METRICS: Any = skimage_metrics
_COLOR: Any = skimage_color

MAX_PSNR_DB = 100.0
"""Of equal pictures, so that means stay finite. One level in one channel of one pixel of a face gives 98 dB."""
SSIM_SIGMA_PX = 1.5


def psnr(truth: Pixels, image: Pixels, region: Region) -> float:
    """Peak signal-to-noise ratio in dB over the region, its three channels together; higher is nearer to the truth."""
    squares = np.square(truth[region].astype(np.float64) - image[region])
    error = float(squares.mean())
    return MAX_PSNR_DB if error == 0 else min(MAX_PSNR_DB, 10.0 * math.log10(255.0**2 / error))


def ssim(truth: Pixels, image: Pixels, region: Region) -> float:
    """Structural similarity over the region, mean of the channels: 1 for equal pictures.

    Wang et al., "Image quality assessment: from error visibility to structural similarity", TIP 2004: Gaussian window
    of 1.5 px.
    """
    _, similarity = _METRICS.structural_similarity(
        truth,
        image,
        channel_axis=2,
        data_range=255,
        full=True,
        gaussian_weights=True,
        sigma=SSIM_SIGMA_PX,
        use_sample_covariance=False,
    )
    return float(similarity[region].mean())


def sharpness(image: Pixels, region: Region) -> float:
    """Variance of the Laplacian of the luma over the region, in squared levels.

    Pech-Pacheco et al., "Diatom autofocusing in brightfield microscopy: a comparative study", ICPR 2000. Noise counts
    as sharpness, so a noisy picture may have more of it than its truth.
    """
    laplacian = cv2.Laplacian(luma(image), cv2.CV_32F)
    return float(np.var(np.asarray(laplacian)[region], dtype=np.float64))


def color_shift(truth: Pixels, image: Pixels, region: Region) -> tuple[float, float]:
    """How far the region's mean colour is from the truth's: differences of a (to red) and b (to yellow) in CIELAB.

    CIE 15:2004, white point D65. A difference of 1 can just be seen between flat fields.
    """
    difference = (_COLOR.rgb2lab(image) - _COLOR.rgb2lab(truth))[region].mean(axis=0)
    return float(difference[1]), float(difference[2])


def seam_change(before: Pixels, pasted: Pixels, weights: npt.NDArray[np.float32]) -> float:
    """How much pasting a face changed the slopes where the face fades into the photo, in levels per pixel.

    The mean, over the pixels of the mask's ramp (0 < weight < 1) and the channels, of the absolute change of the
    horizontal and of the vertical gradient, added. It holds the seam and what the face itself changed there, so it is
    to be compared between models and not with 0.

    Args:
        before: the photo without the face.
        pasted: the photo with it.
        weights: (H, W) of the mask, in [0, 1].
    """
    change = pasted.astype(np.float32) - before
    is_ramp = (weights > 0) & (weights < 1)
    across = np.abs(np.diff(change, axis=1, append=change[:, -1:]))
    down = np.abs(np.diff(change, axis=0, append=change[-1:]))
    return float((across + down)[is_ramp].mean())


NoReferenceMetric: TypeAlias = Callable[[Pixels], float | None]
ReferenceMetric: TypeAlias = Callable[[Pixels, Pixels], float]


def load_niqe() -> NoReferenceMetric:
    """NIQE of basicsr, which measures how natural a picture looks, without a truth: lower is better.

    Mittal et al., "Making a completely blind image quality analyzer", SPL 2013. It takes the whole picture, in blocks
    of 96 px: a crop of 256 px has four, so that only means over many pictures say something. None for pictures without
    any texture, for which it is not defined.

    Raises:
        ImportError: basicsr is not installed, or not usable.
    """
    calculate_niqe = import_basicsr("metrics").calculate_niqe

    def niqe(image: Pixels) -> float | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                value = float(calculate_niqe(np.ascontiguousarray(image[:, :, ::-1]), crop_border=0))
        except np.linalg.LinAlgError:
            return None
        return value if math.isfinite(value) else None

    return niqe


def load_lpips() -> ReferenceMetric:
    """LPIPS (AlexNet, version 0.1) of pyiqa over the whole picture: 0 for equal pictures, lower is nearer to the truth.

    Zhang et al., "The unreasonable effectiveness of deep features as a perceptual metric", CVPR 2018.

    Raises:
        OptionError: pyiqa is not installed.
        WeightsError: its weights are not here and cannot be fetched.
    """
    try:
        import pyiqa
    except ImportError as error:
        raise OptionError(f"The metric lpips needs pyiqa, which cannot be imported ({error}); install it.") from error
    import torch

    try:
        network = pyiqa.create_metric("lpips", device=torch.device("cpu"))
    except OSError as error:
        raise WeightsError(
            f"pyiqa could not fetch the weights of lpips ({error}); go online for them once, or leave lpips out."
        ) from error

    def to_tensor(image: Pixels) -> torch.Tensor:
        return torch.from_numpy(image.transpose(2, 0, 1)[None].astype(np.float32) / 255.0)

    def lpips(truth: Pixels, image: Pixels) -> float:
        return float(network(to_tensor(image), to_tensor(truth)))

    return lpips
