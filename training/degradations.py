"""Make a good portrait bad in a random way, and say what a perfect restoration of it would be.

All pictures are (H, W, 3) float32 RGB in 0..255 inside, uint8 at the borders. Everything random comes from the
generator that the caller gives, so a seed fixes the result.

Most of what is drawn is `camera`: blur, shrink, noise, JPEG, enlarge, mild to strong as one, which is how most bad
photos came about and how the named strengths of the benchmark are made. Others take the same steps in random order with
a wider choice of kernels and filters, only a light touch, or nothing: a good face must come back as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from gpen_core.photo.color import luma, to_levels
from gpen_core.types import FloatArray, Pixels

Rng = np.random.Generator
Step = Callable[[FloatArray, Rng], FloatArray]

# How often each kind of degradation is drawn.
KINDS = {"camera": 0.68, "random": 0.18, "touch": 0.08, "clean": 0.06}
# How often each tone is drawn. The truth has it too: giving a photo new colours is not the task.
TONES = {"colour": 0.58, "aged": 0.22, "gray": 0.10, "faded": 0.10}
# Below 1 the strong damage of `camera` is drawn more often than the mild: it is what is slowest to learn.
STRENGTH_EXPONENT = 0.5
SHRINK_FILTERS = (cv2.INTER_AREA, cv2.INTER_LINEAR, cv2.INTER_CUBIC)
ENLARGE_FILTERS = (cv2.INTER_CUBIC, cv2.INTER_CUBIC, cv2.INTER_CUBIC, cv2.INTER_LINEAR, cv2.INTER_LANCZOS4)
AGED_BLACK = (58.0, 44.0, 34.0)
AGED_WHITE = (238.0, 220.0, 188.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A bad picture and the truth behind it, (H, W, 3) uint8 RGB."""

    degraded: Pixels
    truth: Pixels


def draw(shares: dict[str, float], rng: Rng) -> str:
    """One of the names, as often as its share says."""
    names = list(shares)
    return names[int(rng.choice(len(names), p=np.array(list(shares.values()))))]


def make_pair(pixels: Pixels, rng: Rng, damage_size: int | None = None) -> Pair:
    """Give a good portrait a random tone, and degrade it at random, at `damage_size` px where that is given."""
    truth = to_levels(TONE_STEPS[draw(TONES, rng)](jitter_colour(pixels.astype(np.float32), rng), rng))
    size = truth.shape[1], truth.shape[0]
    if damage_size is None or damage_size == size[0]:
        return Pair(degraded=degrade_randomly(truth, rng), truth=truth)
    small = cv2.resize(truth, (damage_size, damage_size), interpolation=cv2.INTER_AREA)
    degraded = degrade_randomly(np.asarray(small, dtype=np.uint8), rng)
    return Pair(degraded=to_levels(_float(cv2.resize(degraded, size, interpolation=cv2.INTER_CUBIC))), truth=truth)


def degrade_randomly(pixels: Pixels, rng: Rng) -> Pixels:
    """A picture of the same size, from untouched to hardly recognisable."""
    return to_levels(KIND_STEPS[draw(KINDS, rng)](pixels.astype(np.float32), rng))


# --- tone: truth and input alike ---


def jitter_colour(image: FloatArray, rng: Rng) -> FloatArray:
    """Other exposure, gamma, contrast, white balance and saturation."""
    gain = rng.uniform(0.8, 1.1) * rng.uniform(0.93, 1.07, 3)
    bent = 255.0 * (np.clip(image, 0, 255) / 255.0) ** np.exp(rng.uniform(-0.25, 0.25))
    gray = luma(to_levels(_float(bent)))[..., None]
    saturated = gray + (bent - gray) * rng.uniform(0.6, 1.3)
    return _float(np.clip((saturated - 128.0) * rng.uniform(0.8, 1.12) + 128.0, 0, 255) * gain)


def keep_colour(image: FloatArray, rng: Rng) -> FloatArray:
    return image


def make_gray(image: FloatArray, rng: Rng) -> FloatArray:
    return _float(np.repeat(luma(to_levels(image))[..., None], 3, axis=2))


def make_aged(image: FloatArray, rng: Rng) -> FloatArray:
    """One ink on yellowed paper, contrast faded."""
    brightness = luma(to_levels(image))[..., None] / 255.0
    black = np.array(AGED_BLACK) * rng.uniform(0.2, 1.4) + rng.uniform(-8, 8, 3)
    white = np.array(AGED_WHITE) + rng.uniform(-20, 15) + rng.uniform(-12, 12, 3)
    return _float(black + brightness * (white - black))


def make_faded(image: FloatArray, rng: Rng) -> FloatArray:
    """Colours of an old colour print: less contrast, a cast."""
    black = rng.uniform(5, 60) + rng.uniform(-10, 10, 3)
    white = rng.uniform(200, 250) + rng.uniform(-20, 15, 3)
    return _float(black + image / 255.0 * (white - black))


# --- damage: input only ---


def camera(image: FloatArray, rng: Rng) -> FloatArray:
    """Blur, shrink, noise, JPEG, enlarge; all of them about as strong as one random number says."""
    height, width = image.shape[:2]
    strength = rng.uniform(0.0, 1.0) ** STRENGTH_EXPONENT

    def around(low: float, high: float, spread: float) -> float:
        return float(np.clip(low + (high - low) * (strength + rng.normal(0, spread)), low, high))

    sigma = around(0.35, 2.3, 0.10)
    is_round = rng.random() < 0.8
    blurred = cv2.GaussianBlur(image, (0, 0), sigmaX=sigma, sigmaY=sigma if is_round else sigma * rng.uniform(0.5, 1.5))
    small = _shrink(_float(blurred), around(1.0, 4.6, 0.08), rng, area_share=0.85)
    noisy = small + unit_noise(small.shape, rng) * around(1.0, 14.5, 0.12)
    stored = through_jpeg(_float(noisy), round(100.0 - around(4.0, 62.0, 0.12)))
    return _enlarge(stored, (width, height), rng)


def random_order(image: FloatArray, rng: Rng) -> FloatArray:
    """Two to four of all the steps in random order; now and then a round of JPEG at the end."""
    height, width = image.shape[:2]
    steps: list[Step] = [blur, resize_down, add_noise, jpeg, scan]
    for i in rng.permutation(len(steps))[: rng.integers(2, 5)]:
        image = steps[i](image, rng)
    if rng.random() < 0.3:
        image = jpeg(image, rng)
    return _enlarge(image, (width, height), rng)


def touch(image: FloatArray, rng: Rng) -> FloatArray:
    """A good picture as most are stored: a fine JPEG, a hint of noise, or a little softness."""
    kind = rng.integers(3)
    if kind == 0:
        return through_jpeg(image, int(rng.integers(80, 99)))
    if kind == 1:
        return _float(image + unit_noise(image.shape, rng) * rng.uniform(1.0, 6.0))
    return _float(cv2.GaussianBlur(image, (0, 0), sigmaX=rng.uniform(0.3, 0.9)))


def clean(image: FloatArray, rng: Rng) -> FloatArray:
    return image


def blur(image: FloatArray, rng: Rng) -> FloatArray:
    """A round, a long or a motion kernel."""
    kernel = motion_kernel(rng) if rng.random() < 0.25 else gaussian_kernel(rng)
    return _float(cv2.filter2D(image, -1, kernel, borderType=cv2.BORDER_REFLECT_101))


def gaussian_kernel(rng: Rng) -> FloatArray:
    """(K, K) Gaussian or generalised Gaussian, round half of the time, summing to 1."""
    sigma = rng.uniform(0.3, 3.0)
    other = sigma if rng.random() < 0.5 else sigma * rng.uniform(0.3, 1.0)
    angle, shape = rng.uniform(0, np.pi), 1.0 if rng.random() < 0.7 else rng.uniform(0.6, 2.0)
    reach = int(np.ceil(3 * sigma))
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1].astype(np.float64)
    along, across = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    kernel = np.exp(-0.5 * ((along / sigma) ** 2 + (across / other) ** 2) ** shape)
    return _float(kernel / kernel.sum())


def motion_kernel(rng: Rng) -> FloatArray:
    """(K, K) straight smear of 3 to 11 px, summing to 1."""
    length = rng.uniform(3, 11)
    reach = int(np.ceil(length / 2))
    angle = rng.uniform(0, np.pi)
    offset = np.array([np.cos(angle), np.sin(angle)]) * length / 2
    canvas = np.zeros((2 * reach + 1, 2 * reach + 1), np.float32)
    start, end = reach - offset, reach + offset
    # Sixteenths of a pixel, so that every angle is its own.
    points = [(round(float(x) * 16), round(float(y) * 16)) for x, y in (start, end)]
    cv2.line(canvas, points[0], points[1], 1.0, 1, cv2.LINE_8, shift=4)
    kernel = cv2.GaussianBlur(canvas, (3, 3), 0.5)
    return _float(kernel / kernel.sum())


def resize_down(image: FloatArray, rng: Rng) -> FloatArray:
    """1 to 8 times smaller, small factors more often."""
    return _shrink(image, float(np.exp(rng.uniform(0.0, np.log(8.0)))), rng, area_share=0.4)


def add_noise(image: FloatArray, rng: Rng) -> FloatArray:
    """Gaussian or Poisson, in colour or in brightness alone."""
    channels = 1 if rng.random() < 0.4 else 3
    unit = unit_noise((*image.shape[:2], channels), rng)
    if rng.random() < 0.6:
        return _float(image + unit * rng.uniform(1.0, 20.0))
    # Poisson noise grows with the root of the light; the Gaussian of the same variance serves as well.
    return _float(image + unit * np.sqrt(np.clip(image, 0, 255) * rng.uniform(0.05, 1.5)))


def jpeg(image: FloatArray, rng: Rng) -> FloatArray:
    return through_jpeg(image, int(rng.integers(30, 99)))


def scan(image: FloatArray, rng: Rng) -> FloatArray:
    """Coarse film grain, and on some a few specks of dust and hairs."""
    height, width = image.shape[:2]
    grain = cv2.GaussianBlur(unit_noise((height, width), rng), (0, 0), sigmaX=rng.uniform(0.5, 1.4))
    image = _float(image + (grain / grain.std() * rng.uniform(1.0, 10.0))[..., None])
    return add_dust(image, rng) if rng.random() < 0.4 else image


def add_dust(image: FloatArray, rng: Rng) -> FloatArray:
    height, width = image.shape[:2]
    opacity = np.zeros((height, width), np.float32)
    for _ in range(rng.integers(1, 12)):
        x, y = (int(rng.integers(side)) for side in (width, height))
        if rng.random() < 0.7:
            cv2.circle(opacity, (x, y), int(rng.integers(0, 3)), float(rng.uniform(0.3, 1.0)), -1, cv2.LINE_AA)
        else:
            end = (x + int(rng.normal(0, 12)), y + int(rng.normal(0, 25)))
            cv2.line(opacity, (x, y), end, float(rng.uniform(0.2, 0.8)), 1, cv2.LINE_AA)
    colour = rng.uniform(200, 255) if rng.random() < 0.6 else rng.uniform(0, 60)
    return _float(image + (colour - image) * opacity[..., None])


def through_jpeg(image: FloatArray, quality: int) -> FloatArray:
    """As a JPEG file of this quality gives it back, colours at half the resolution."""
    is_written, data = cv2.imencode(".jpg", to_levels(image)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not is_written:
        raise ValueError(f"a picture of shape {image.shape} cannot be stored as JPEG")
    decoded = cv2.imdecode(data, cv2.IMREAD_COLOR)
    if decoded is None:
        raise ValueError("a JPEG just written cannot be read")
    return _float(decoded[..., ::-1])


def unit_noise(shape: tuple[int, ...], rng: Rng) -> FloatArray:
    """Gaussian of mean 0 and deviation 1."""
    return rng.standard_normal(shape, dtype=np.float32)


def _shrink(image: FloatArray, factor: float, rng: Rng, area_share: float) -> FloatArray:
    height, width = image.shape[:2]
    size = (max(4, round(width / factor)), max(4, round(height / factor)))
    is_area = rng.random() < area_share
    method = cv2.INTER_AREA if is_area else SHRINK_FILTERS[rng.integers(len(SHRINK_FILTERS))]
    return _float(cv2.resize(image, size, interpolation=method))


def _enlarge(image: FloatArray, size: Sequence[int], rng: Rng) -> FloatArray:
    """To `size` (width, height), from whole levels as a stored file has them."""
    method = ENLARGE_FILTERS[rng.integers(len(ENLARGE_FILTERS))]
    return _float(cv2.resize(to_levels(image), (size[0], size[1]), interpolation=method))


def _float(image: object) -> FloatArray:
    return np.asarray(image, dtype=np.float32)


TONE_STEPS: dict[str, Step] = {"colour": keep_colour, "gray": make_gray, "aged": make_aged, "faded": make_faded}
KIND_STEPS: dict[str, Step] = {"camera": camera, "random": random_order, "touch": touch, "clean": clean}
