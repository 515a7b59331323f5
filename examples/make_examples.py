"""Make the example photos:  python examples/make_examples.py [--out examples]

Three public-domain photographs are damaged the way real family pictures are: saved small for an
old website, faded on a wall, toned and dusty in a box, scanned with noise, photographed off an
album page. SOURCES.md, beside this file, says where each one comes from.

One photograph is a part of scikit-image. The other two lie in the source archive of the PyPI
project face_recognition, which pip downloads into a temporary folder (about 3 MB). The archive and
every picture are compared with the hashes below before anything is made of them.

All randomness is seeded, so a second run gives the same pixels, as long as Pillow, its libjpeg and
NumPy are the same; other versions may round, compress or draw a little differently.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageOps
from skimage import data

FloatPixels = NDArray[np.float32]
Rgb = tuple[int, int, int]
CropBox = tuple[int, int, int, int]

ARCHIVE_PROJECT = "face_recognition"
ARCHIVE_VERSION = "1.3.0"
ARCHIVE_SHA256 = "5e5efdd1686aa566af0d3cc1313b131e4b197657a8ffd03669e6d3fad92705ec"

SUPERSAMPLING = 4


@dataclass(frozen=True)
class Source:
    """A photograph as its publisher gives it out, and the part of it that is used.

    `sha256` is that of the file in the archive, or of the RGB bytes where there is no `member`,
    which means that the photograph comes with scikit-image.
    """

    name: str
    sha256: str
    crop: CropBox
    long_side_px: int
    member: str | None = None


@dataclass(frozen=True)
class Tone:
    """What is left of the colours: saturation first, then black and white move to new places."""

    black: Rgb = (0, 0, 0)
    white: Rgb = (255, 255, 255)
    saturation: float = 1.0


@dataclass(frozen=True)
class Damage:
    """How one example differs from its source. Lengths are in pixels of the finished picture.

    `grain_sigma` and `stain_sigma` are standard deviations in 8-bit levels: grain has the size
    `grain_px`, stain is the slow unevenness of old paper. A `jpeg_quality` of None writes PNG.
    """

    name: str
    source: str
    long_side_px: int
    seed: int
    blur_px: float
    tone: Tone
    grain_sigma: float = 0.0
    grain_px: float = 1.0
    stain_sigma: float = 0.0
    num_specks: int = 0
    num_scratches: int = 0
    is_gray: bool = False
    jpeg_quality: int | None = None


@dataclass(frozen=True)
class AlbumPrint:
    """One print on the album page: `center` and `height_px` are in pixels of the page."""

    source: str
    crop: CropBox
    center: tuple[int, int]
    height_px: int
    angle_deg: float
    tone: Tone
    is_oval: bool = False


@dataclass(frozen=True)
class AlbumPage:
    """The page with its prints, and the phone that takes a picture of it."""

    name: str
    page_px: tuple[int, int]
    photo_px: tuple[int, int]
    seed: int
    paper: Rgb
    sheet: Rgb
    shadow: Rgb
    paper_stain_sigma: float
    border_px: int
    shadow_px: int
    dimmest_corner: float
    blur_px: float
    noise_sigma: float
    noise_px: float
    jpeg_quality: int
    prints: tuple[AlbumPrint, ...]


TRUE_COLOR = Tone()
FLAT_GRAY = Tone((22, 22, 22), (232, 232, 232), saturation=0.0)
FADED_WARM = Tone((84, 62, 48), (243, 222, 180), saturation=0.5)
SEPIA = Tone((46, 29, 17), (244, 224, 184), saturation=0.0)
FADED_SLIGHTLY = Tone((34, 27, 24), (246, 236, 214), saturation=0.75)
ALBUM_SEPIA = Tone((52, 38, 28), (238, 222, 192), saturation=0.0)

SOURCES = (
    Source(
        name="astronaut",
        sha256="a8c429c18afa7b0fd5673e598d73a21225d94c864a71bbb3885126fdecb41071",
        crop=(0, 0, 512, 512),
        long_side_px=512,
    ),
    Source(
        name="obama",
        member="face_recognition-1.3.0/tests/test_images/obama.jpg",
        sha256="0930e3aa8cae5920329c0c8cbc6a2ab70f47b0e67b432875beaa95cbf7e741f6",
        crop=(0, 0, 910, 1137),
        long_side_px=1024,
    ),
    Source(
        name="biden",
        member="face_recognition-1.3.0/tests/test_images/biden.jpg",
        sha256="3c17508bb91554c637a2eabddfae790e5bb1caba93130814fc2ac50be9760c4c",
        crop=(0, 20, 970, 1232),
        long_side_px=1024,
    ),
)

DAMAGES = (
    Damage(
        name="astronaut-small.jpg",
        source="astronaut",
        long_side_px=320,
        seed=1,
        blur_px=0.7,
        tone=TRUE_COLOR,
        jpeg_quality=40,
    ),
    Damage(
        name="obama-faded.jpg",
        source="obama",
        long_side_px=800,
        seed=2,
        blur_px=2.2,
        tone=FADED_WARM,
        grain_sigma=6.0,
        grain_px=1.8,
        stain_sigma=5.0,
        num_specks=25,
        jpeg_quality=70,
    ),
    Damage(
        name="biden-sepia.jpg",
        source="biden",
        long_side_px=720,
        seed=3,
        blur_px=1.7,
        tone=SEPIA,
        grain_sigma=8.0,
        grain_px=1.5,
        stain_sigma=7.0,
        num_specks=110,
        num_scratches=5,
        jpeg_quality=75,
    ),
    Damage(
        name="astronaut-gray-noisy.png",
        source="astronaut",
        long_side_px=512,
        seed=4,
        blur_px=1.0,
        tone=FLAT_GRAY,
        grain_sigma=16.0,
        stain_sigma=3.0,
        is_gray=True,
    ),
)

ALBUM = AlbumPage(
    name="group.jpg",
    page_px=(1600, 1040),
    photo_px=(1200, 780),
    seed=5,
    paper=(205, 192, 168),
    sheet=(238, 231, 214),
    shadow=(40, 32, 24),
    paper_stain_sigma=4.0,
    border_px=18,
    shadow_px=10,
    dimmest_corner=0.72,
    blur_px=1.5,
    noise_sigma=4.0,
    noise_px=1.3,
    jpeg_quality=68,
    prints=(
        AlbumPrint("obama", (0, 0, 910, 1137), (344, 535), 720, 4.0, FADED_SLIGHTLY),
        AlbumPrint("astronaut", (40, 0, 410, 462), (846, 355), 480, -6.5, FADED_SLIGHTLY),
        AlbumPrint("biden", (110, 20, 970, 1095), (1278, 600), 660, 3.0, ALBUM_SEPIA, is_oval=True),
    ),
)


def main() -> None:
    """Read the command line and write the pictures."""
    parser = argparse.ArgumentParser(description="Make the example photos.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write into")
    parser.add_argument("--archive", type=Path, help="an already downloaded face_recognition-1.3.0.tar.gz")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        archive = args.archive or download_archive(Path(scratch))
        sources = read_sources(archive)
    for path in write_examples(sources, args.out):
        print(f"{path}  {path.stat().st_size / 1024:.0f} KiB")


def download_archive(folder: Path) -> Path:
    """Let pip fetch the source archive into `folder`.

    The hash goes to pip, too: it runs the archive's own build script to read its metadata, and
    this way it does so only after the bytes have been found to be the expected ones.
    """
    requirement = f"{ARCHIVE_PROJECT}=={ARCHIVE_VERSION} --hash=sha256:{ARCHIVE_SHA256}\n"
    wanted = folder / "wanted.txt"
    wanted.write_text(requirement, encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-binary", ARCHIVE_PROJECT, "--require-hashes"]
    command += ["--dest", str(folder), "--requirement", str(wanted)]
    subprocess.run(command, check=True)
    return folder / f"{ARCHIVE_PROJECT}-{ARCHIVE_VERSION}.tar.gz"


def read_sources(archive: Path) -> dict[str, Image.Image]:
    """Return every source, checked and cropped, by name.

    The pictures are read straight from the archive: nothing is unpacked, so no path inside it can
    reach the disk.
    """
    check_sha256(archive.read_bytes(), ARCHIVE_SHA256, archive.name)
    photos: dict[str, Image.Image] = {}
    with tarfile.open(archive, "r:gz") as tar:
        for source in SOURCES:
            if source.member is None:
                load_astronaut: Callable[[], NDArray[np.uint8]] = data.astronaut
                photo = Image.fromarray(load_astronaut())
                check_sha256(photo.tobytes(), source.sha256, source.name)
            else:
                encoded = read_member(tar, source.member)
                check_sha256(encoded, source.sha256, source.member)
                photo = Image.open(io.BytesIO(encoded)).convert("RGB")
            photos[source.name] = photo.crop(source.crop)
    return photos


def read_member(tar: tarfile.TarFile, member: str) -> bytes:
    """Return the bytes of one regular file in the archive."""
    stream = tar.extractfile(member)
    if stream is None:
        raise ValueError(f"{member} is not a regular file in the archive")
    with stream:
        return stream.read()


def check_sha256(content: bytes, expected: str, what: str) -> None:
    """Stop if `content` is not what SOURCES.md describes."""
    actual = hashlib.sha256(content).hexdigest()
    if actual != expected:
        raise ValueError(f"{what}: sha256 is {actual}, expected {expected}")


def write_examples(sources: dict[str, Image.Image], folder: Path) -> list[Path]:
    """Write the originals, the damaged photos and the album page; return their paths."""
    originals = folder / "originals"
    originals.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for source in SOURCES:
        original = shrink(sources[source.name], source.long_side_px)
        path = originals / f"{source.name}.jpg"
        # Full colour resolution: the tests take these files for the truth.
        original.save(path, quality=92, subsampling=0, optimize=True)
        paths.append(path)
    for damage in DAMAGES:
        paths.append(save_photo(damage_photo(sources[damage.source], damage), damage, folder))
    path = folder / ALBUM.name
    photograph_album(sources, ALBUM).save(path, quality=ALBUM.jpeg_quality, optimize=True)
    return [*paths, path]


def save_photo(photo: Image.Image, damage: Damage, folder: Path) -> Path:
    """Encode one damaged photo the way its table row says."""
    path = folder / damage.name
    if damage.jpeg_quality is None:
        photo.save(path, optimize=True)
    else:
        photo.save(path, quality=damage.jpeg_quality, optimize=True)
    return path


def damage_photo(source: Image.Image, damage: Damage) -> Image.Image:
    """Apply one row of the table: optics first, then chemistry, then the scanner's dust."""
    rng = np.random.default_rng(damage.seed)
    photo = shrink(source, damage.long_side_px)
    photo = photo.filter(ImageFilter.GaussianBlur(damage.blur_px))
    pixels = apply_tone(photo, damage.tone)
    height, width = pixels.shape[:2]
    pixels += smooth_noise(rng, (width, height), cell_px=width / 4, sigma=damage.stain_sigma)
    pixels += smooth_noise(rng, (width, height), cell_px=damage.grain_px, sigma=damage.grain_sigma)
    pixels = add_dust(pixels, rng, damage.num_specks, damage.num_scratches)
    finished = to_image(pixels)
    return finished.convert("L") if damage.is_gray else finished


def shrink(photo: Image.Image, long_side_px: int) -> Image.Image:
    """Return the photo with the given long side; area-true, as a scanner or website does it."""
    scale = long_side_px / max(photo.size)
    size = (round(photo.width * scale), round(photo.height * scale))
    return photo if size == photo.size else photo.resize(size, Image.Resampling.LANCZOS)


def apply_tone(photo: Image.Image, tone: Tone) -> FloatPixels:
    """Return (H,W,3) pixels in 0..255 after the tone's loss of colour and contrast."""
    pixels = np.asarray(photo, dtype=np.float32)
    luma = np.asarray(photo.convert("L"), dtype=np.float32)[..., None]
    pixels = luma + (pixels - luma) * np.float32(tone.saturation)
    black = np.array(tone.black, dtype=np.float32)
    white = np.array(tone.white, dtype=np.float32)
    toned: FloatPixels = black + pixels / np.float32(255) * (white - black)
    return toned


def smooth_noise(rng: np.random.Generator, size: tuple[int, int], cell_px: float, sigma: float) -> FloatPixels:
    """Return (H,W,1) Gaussian noise in blobs about `cell_px` wide, the same for R, G and B."""
    width, height = size
    if sigma == 0:
        return np.zeros((height, width, 1), dtype=np.float32)
    cells = (max(2, round(height / cell_px)), max(2, round(width / cell_px)))
    coarse = Image.fromarray(rng.standard_normal(cells, dtype=np.float32))
    field = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC), dtype=np.float32)
    scaled: FloatPixels = field * np.float32(sigma / max(float(field.std()), 1e-6))
    return scaled[..., None]


def add_dust(pixels: FloatPixels, rng: np.random.Generator, num_specks: int, num_scratches: int) -> FloatPixels:
    """Lay light and dark specks and light hairline scratches over the picture.

    Both are drawn on a larger mask and shrunk, so that their edges are soft.
    """
    height, width = pixels.shape[:2]
    large = (width * SUPERSAMPLING, height * SUPERSAMPLING)
    masks = [Image.new("L", large, 0), Image.new("L", large, 0)]
    pens = [ImageDraw.Draw(mask) for mask in masks]
    for _ in range(num_specks):
        x, y = rng.uniform(0, large[0]), rng.uniform(0, large[1])
        radius = min(rng.exponential(2.2) + 1.5, 9.0)
        squeeze = rng.uniform(0.5, 1.0)
        box = (x - radius, y - radius * squeeze, x + radius, y + radius * squeeze)
        # Most dust lies on the print and scans light; the rest are spots in the emulsion.
        pens[0 if rng.random() < 0.7 else 1].ellipse(box, fill=int(rng.integers(90, 220)))
    for _ in range(num_scratches):
        pens[0].line(scratch_points(rng, large), fill=int(rng.integers(70, 150)), width=3)
    for mask, target in zip(masks, (250.0, 25.0), strict=True):
        soft = mask.resize((width, height), Image.Resampling.BOX)
        weight = np.asarray(soft, dtype=np.float32)[..., None] / np.float32(255)
        pixels = pixels + (np.float32(target) - pixels) * weight
    return pixels


def scratch_points(rng: np.random.Generator, size: tuple[int, int]) -> list[tuple[float, float]]:
    """Return a slightly bent, mostly upright line somewhere on the picture."""
    width, height = size
    length = rng.uniform(0.1, 0.35) * height
    x, y = rng.uniform(0.05, 0.95) * width, rng.uniform(0, 0.7) * height
    lean, bend = rng.normal(0, 0.12), rng.normal(0, 0.03)
    steps = np.linspace(0, 1, 24)
    return [(x + length * (lean * t + bend * t * t), y + length * t) for t in steps.tolist()]


def photograph_album(sources: dict[str, Image.Image], album: AlbumPage) -> Image.Image:
    """Lay the prints on the page and take the phone's picture of it."""
    rng = np.random.default_rng(album.seed)
    paper = np.zeros((album.page_px[1], album.page_px[0], 3), dtype=np.float32)
    paper += np.array(album.paper, dtype=np.float32)
    paper += smooth_noise(rng, album.page_px, cell_px=260, sigma=album.paper_stain_sigma)
    paper += smooth_noise(rng, album.page_px, cell_px=2, sigma=2.5)
    page = to_image(paper)
    for piece in album.prints:
        lay_print(page, sources[piece.source], piece, album)
    photo = page.resize(album.photo_px, Image.Resampling.LANCZOS)
    photo = photo.filter(ImageFilter.GaussianBlur(album.blur_px))
    pixels = np.asarray(photo, dtype=np.float32) * lamp_light(album.photo_px, album.dimmest_corner)
    # A phone's noise differs between the channels, unlike film grain.
    noise = [smooth_noise(rng, album.photo_px, cell_px=album.noise_px, sigma=album.noise_sigma) for _ in range(3)]
    return to_image(pixels + np.concatenate(noise, axis=2))


def lay_print(page: Image.Image, photo: Image.Image, piece: AlbumPrint, album: AlbumPage) -> None:
    """Paste one turned print with its border and shadow onto the page."""
    cut = photo.crop(piece.crop)
    picture = cut.resize(
        (round(cut.width * piece.height_px / cut.height), piece.height_px),
        Image.Resampling.LANCZOS,
    )
    toned = to_image(apply_tone(picture, piece.tone))
    sheet_size = (toned.width + 2 * album.border_px, toned.height + 2 * album.border_px)
    sheet = Image.new("RGB", sheet_size, album.sheet)
    sheet.paste(toned, (album.border_px, album.border_px), picture_mask(toned.size, piece.is_oval))

    # Room around the sheet, for the shadow and for edges that stay smooth when turned.
    room = 4 * album.shadow_px
    sheet = ImageOps.expand(sheet, room, album.sheet)
    mask = ImageOps.expand(Image.new("L", sheet_size, 255), room, 0)
    half = Image.eval(mask, lambda level: level // 2)
    shadow = half.filter(ImageFilter.GaussianBlur(album.shadow_px))
    mask = mask.filter(ImageFilter.GaussianBlur(1))

    sheet, mask, shadow = (
        layer.rotate(piece.angle_deg, Image.Resampling.BICUBIC, expand=True) for layer in (sheet, mask, shadow)
    )
    x = piece.center[0] - sheet.width // 2
    y = piece.center[1] - sheet.height // 2
    offset = album.shadow_px // 2
    page.paste(album.shadow, (x + offset, y + offset), shadow)
    page.paste(sheet, (x, y), mask)


def picture_mask(size: tuple[int, int], is_oval: bool) -> Image.Image:
    """Return the mask of the picture on its sheet: all of it, or an oval that fades out."""
    if not is_oval:
        return Image.new("L", size, 255)
    mask = Image.new("L", size, 0)
    inset = 22
    ImageDraw.Draw(mask).ellipse((inset, inset, size[0] - inset, size[1] - inset), fill=255)
    return mask.filter(ImageFilter.GaussianBlur(inset / 2.5))


def lamp_light(size: tuple[int, int], dimmest: float) -> FloatPixels:
    """Return (H,W,1) factors: a lamp near the upper left, down to `dimmest` in the far corner."""
    width, height = size
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    distance = np.hypot(x / width - 0.35, y / height - 0.3)
    falloff = (distance / distance.max()) ** 2
    light: FloatPixels = (1 - (1 - dimmest) * falloff).astype(np.float32)
    return light[..., None]


def to_image(pixels: FloatPixels) -> Image.Image:
    """Return float (H,W,3) pixels in 0..255 as a picture, rounded and clipped."""
    return Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))


if __name__ == "__main__":
    main()
