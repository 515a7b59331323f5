"""Keep the tone of photos that have only one: gray stays gray, sepia stays sepia."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.types import FloatArray, Pixels

LUMA_WEIGHTS = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""ITU-R BT.601, the luma that JPEG and Pillow's `L` use."""
MAX_SAMPLES = 50_000
MAX_DEVIATION_LEVELS = 2.5
"""Root mean square distance from one tone, in levels, up to which a photo counts as toned: JPEG noise stays below."""
FIT_DEGREE = 2


@dataclass(frozen=True, slots=True, eq=False)
class Tone:
    """The one colour a monochrome photo has at each brightness: channel = polynomial of luma."""

    coefficients: npt.NDArray[np.float64]
    """(FIT_DEGREE + 1, 3), highest power first, luma in [0, 1] to levels."""

    def apply(self, luma: FloatArray) -> FloatArray:
        """(H, W) luma in levels -> (H, W, 3) RGB in levels."""
        channels = [np.polyval(self.coefficients[:, c], luma / 255.0) for c in range(3)]
        return np.stack(channels, axis=-1).astype(np.float32)

    def recolor(self, crop: Pixels, restored: Pixels) -> Pixels:
        """`restored` with its own brightness and the tone of the photo.

        The step in tone is added to `crop`, so that a crop the network left unchanged stays unchanged to the level.
        """
        before, after = luma(crop) / np.float32(255), luma(restored) / np.float32(255)
        # The difference of the two polynomials, in which the constants cancel out.
        powers = np.dstack([after**power - before**power for power in range(FIT_DEGREE, 0, -1)])
        step = cv2.transform(powers, self.coefficients[:-1].T.astype(np.float32))
        return to_levels(crop.astype(np.float32) + step)


GRAY = Tone(np.array([[0.0] * 3, [255.0] * 3, [0.0] * 3]))


def to_levels(image: FloatArray) -> Pixels:
    """Rounded and cut off to 0..255."""
    rounded = np.rint(image)
    levels: Pixels = np.clip(rounded, 0, 255, out=rounded).astype(np.uint8)
    return levels


def luma(pixels: Pixels) -> FloatArray:
    """(N, 3) or (H, W, 3) RGB -> (N) or (H, W) luma in levels."""
    # OpenCV's weights are the same, and it is faster than a product with them.
    picture = pixels.reshape(-1, *pixels.shape[-2:]).astype(np.float32)
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), dtype=np.float32).reshape(pixels.shape[:-1])


def detect_tone(pixels: Pixels) -> Tone | None:
    """The tone of a monochrome photo: `GRAY`, or the fitted tone of a sepia or faded one; None for colour photos."""
    step = max(1, int(np.sqrt(pixels.shape[0] * pixels.shape[1] / MAX_SAMPLES)))
    samples = pixels[::step, ::step].reshape(-1, 3)
    if bool((samples == samples[:, :1]).all()) and _is_gray_everywhere(pixels):
        return GRAY
    brightness = luma(samples).astype(np.float64) / 255.0
    if brightness.max() - brightness.min() < 0.05:
        # A flat picture fits any tone and proves none.
        return None
    # By the normal equations: exact enough for so low a degree, and ten times faster. Two colours leave them singular.
    powers = np.vander(brightness, FIT_DEGREE + 1)
    coefficients = np.linalg.lstsq(powers.T @ powers, powers.T @ samples.astype(np.float64), rcond=None)[0]
    fitted = np.stack([np.polyval(coefficients[:, c], brightness) for c in range(3)], axis=-1)
    deviation = float(np.sqrt(np.mean((fitted - samples) ** 2)))
    return Tone(coefficients) if deviation <= MAX_DEVIATION_LEVELS else None


def _is_gray_everywhere(pixels: Pixels) -> bool:
    red, green, blue = pixels[..., 0], pixels[..., 1], pixels[..., 2]
    return bool(np.array_equal(red, green) and np.array_equal(green, blue))
