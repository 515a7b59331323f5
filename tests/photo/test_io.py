"""Every kind of file comes in upright as 8-bit sRGB and goes out without loss, or is refused in one sentence."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from gpen_core.errors import PhotoError
from gpen_core.options import OutputOptions
from gpen_core.photo import profile as photo_profile
from gpen_core.photo.io import read_photo
from gpen_core.photo.metadata import EXIF_ORIENTATION, is_own_result
from gpen_core.photo.write import write_photo
from gpen_core.types import Photo
from tests.photo.profiles import swapped_primaries_profile


@pytest.fixture(scope="module")
def upright(astronaut) -> Image.Image:
    return Image.fromarray(astronaut[:384])


@pytest.fixture(scope="module")
def gray(astronaut) -> Image.Image:
    return Image.fromarray(astronaut).convert("L")


def saved(image: Image.Image, format_: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, format_, **options)
    return file.getvalue()


def mean_difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a.astype(float) - b.astype(float)).mean())


def stored_turned(image: Image.Image, orientation: int) -> Image.Image:
    """`image` as a camera stores it with this tag: showing it upright takes the tag's turn."""
    undo = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    return image if undo is None else image.transpose(undo)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turned_photos_come_in_upright_and_are_not_turned_again(upright, orientation, tmp_path):
    exif = Image.Exif()
    exif[EXIF_ORIENTATION] = orientation
    exif[0x010F] = "TestCam"
    exif.get_ifd(0x8769)[0x9003] = "2001:02:03 04:05:06"
    exif.get_ifd(0x8825)[1] = "N"
    photo = read_photo(saved(stored_turned(upright, orientation), "PNG", exif=exif))
    np.testing.assert_array_equal(photo.pixels, np.asarray(upright))
    for name in ("out.jpg", "out.png", "out.webp", "out.tif"):
        write_photo(photo, tmp_path / name)
        with Image.open(tmp_path / name) as written:
            assert ImageOps.exif_transpose(written).size == upright.size
            kept = written.getexif()
            assert kept.get(EXIF_ORIENTATION, 1) == 1
            assert kept[0x010F] == "TestCam"
            assert kept.get_ifd(0x8769)[0x9003] == "2001:02:03 04:05:06"
            assert kept.get_ifd(0x8825)[1] == "N"


def test_gray_comes_in_the_same_in_every_depth(gray, tmp_path):
    expected = np.repeat(np.asarray(gray)[:, :, None], 3, axis=2)
    deep = np.asarray(gray).astype(np.uint16) * 257
    cv2.imwrite(str(tmp_path / "gray16.png"), deep)
    sources = {
        "8-bit PNG": saved(gray, "PNG"),
        "16-bit PNG": (tmp_path / "gray16.png").read_bytes(),
        "16-bit TIFF": saved(Image.fromarray(deep), "TIFF"),
        "big-endian TIFF": saved(Image.frombytes("I;16B", gray.size, deep.astype(">u2").tobytes()), "TIFF"),
        "float TIFF": saved(Image.fromarray(np.asarray(gray).astype(np.float32) / 255), "TIFF"),
    }
    for name, source in sources.items():
        np.testing.assert_array_equal(read_photo(source).pixels, expected, err_msg=name)


def test_color_in_every_mode(astronaut, tmp_path):
    image = Image.fromarray(astronaut)
    cv2.imwrite(str(tmp_path / "deep.png"), astronaut[..., ::-1].astype(np.uint16) * 257)
    for source in (saved(image, "PNG"), saved(image, "WEBP", lossless=True), (tmp_path / "deep.png").read_bytes()):
        np.testing.assert_array_equal(read_photo(source).pixels, astronaut)
    assert mean_difference(read_photo(saved(image.convert("CMYK"), "JPEG", quality=95)).pixels, astronaut) < 4
    assert mean_difference(read_photo(saved(image, "AVIF", quality=90)).pixels, astronaut) < 4
    assert read_photo(saved(image.convert("1"), "PNG")).pixels.shape == astronaut.shape
    assert mean_difference(read_photo(saved(image.quantize(256), "GIF")).pixels, astronaut) < 12


def test_opacity_is_kept_in_every_mode(astronaut, gray):
    alpha = Image.new("L", gray.size, 255)
    alpha.paste(40, (0, 0, 200, 300))
    rgba = Image.fromarray(astronaut)
    rgba.putalpha(alpha)
    la = gray.copy()
    la.putalpha(alpha)
    for image in (rgba, la):
        photo = read_photo(saved(image, "PNG"))
        np.testing.assert_array_equal(photo.alpha, np.asarray(alpha))
    np.testing.assert_array_equal(read_photo(saved(rgba, "PNG")).pixels, astronaut)
    palette = read_photo(saved(rgba.quantize(64), "PNG"))
    assert palette.alpha is not None
    assert read_photo(saved(Image.fromarray(astronaut).convert("RGBA"), "PNG")).alpha is None


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((6, 5), np.uint8),
        ((6, 5, 1), np.uint8),
        ((6, 5, 2), np.uint8),
        ((6, 5, 3), np.uint16),
        ((6, 5, 4), np.uint8),
        ((6, 5, 3), np.float32),
        ((6, 5), np.bool_),
    ],
)
def test_arrays_of_every_layout(shape, dtype):
    levels = np.random.default_rng(1).integers(0, 2 if dtype == np.bool_ else 256, shape).astype(np.uint8)
    factor = {np.uint16: 257, np.float32: 1 / 255}.get(dtype, 1)
    array = (levels.astype(float) * factor).astype(dtype) if dtype != np.bool_ else levels.astype(bool)
    array.setflags(write=False)
    expected = levels * (255 if dtype == np.bool_ else 1)
    expected = expected if expected.ndim == 3 else expected[:, :, None]
    photo = read_photo(array[:, ::-1])
    color = expected[:, ::-1, :3] if expected.shape[2] >= 3 else np.repeat(expected[:, ::-1, :1], 3, axis=2)
    np.testing.assert_array_equal(photo.pixels, color)
    assert (photo.alpha is not None) == (expected.shape[2] in (2, 4))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3, 4, 5, 3), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
        np.zeros((3, 4, 5), np.uint8),
        np.full((3, 4), 7.0),
        np.full((3, 4), np.nan),
        np.zeros((3, 4), np.int64),
    ],
)
def test_arrays_that_are_no_picture_are_refused(array):
    with pytest.raises(PhotoError):
        read_photo(array)


def test_a_colour_profile_is_applied(astronaut):
    photo = read_photo(saved(Image.fromarray(astronaut), "PNG", icc_profile=swapped_primaries_profile()))
    plain, seen = astronaut.reshape(-1, 3).mean(axis=0), photo.pixels.reshape(-1, 3).mean(axis=0)
    assert plain[0] > plain[2] + 20
    assert seen[2] > seen[0] + 20


def test_a_large_picture_is_the_same_in_bands(astronaut, monkeypatch):
    """Colour profile, opacity and turn, whatever the number of rows converted at once."""
    exif = Image.Exif()
    exif[EXIF_ORIENTATION] = 6
    rgba = np.dstack((astronaut, astronaut[..., 0]))[:301]
    content = saved(Image.fromarray(rgba), "PNG", icc_profile=swapped_primaries_profile(), exif=exif)
    in_bands = read_photo(content)
    monkeypatch.setattr(photo_profile, "BAND_ROWS", 10_000)
    at_once = read_photo(content)
    np.testing.assert_array_equal(in_bands.pixels, at_once.pixels)
    np.testing.assert_array_equal(in_bands.alpha, np.rot90(rgba[..., 3], -1))
    assert in_bands.pixels.shape == (512, 301, 3)


def test_animation_gives_its_first_frame_and_says_so(astronaut):
    frames = [Image.fromarray(np.roll(astronaut[:64, :64], 9 * k, axis=1)) for k in range(3)]
    photo = read_photo(saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True))
    np.testing.assert_array_equal(photo.pixels, np.asarray(frames[0]))
    assert "3 frames" in photo.notes[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"not an image\n", "not a picture"),
        (b"\0\5\x16\7" + b"\0" * 60, "not a picture"),
        (b"\0\0\0\x18ftypheic" + b"\0" * 200, "HEIC"),
    ],
)
def test_unreadable_content_is_one_sentence(content, words, tmp_path):
    path = tmp_path / "photo.jpg"
    path.write_bytes(content)
    for source in (path, str(path), content):
        with pytest.raises(PhotoError, match=words) as caught:
            read_photo(source)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("profile", [None, swapped_primaries_profile()], ids=["", "with a colour profile"])
def test_a_cut_off_file_is_refused(astronaut, tmp_path, profile):
    path = tmp_path / "half.jpg"
    content = saved(Image.fromarray(astronaut), "JPEG", icc_profile=profile)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(PhotoError, match="damaged"):
        read_photo(path)


def test_missing_files_and_folders_are_named(tmp_path):
    (tmp_path / "x.jpg").mkdir()
    with pytest.raises(PhotoError, match="no file"):
        read_photo(tmp_path / "absent.jpg")
    with pytest.raises(PhotoError, match="is a folder"):
        read_photo(tmp_path / "x.jpg")


def test_huge_pictures_are_refused_before_decoding():
    for side in (10_100, 14_000):
        with pytest.raises(PhotoError, match="100"):
            read_photo(saved(Image.new("1", (side, side)), "PNG"))


def test_written_png_tiff_and_webp_hold_every_pixel(astronaut, tmp_path):
    alpha = np.tile(np.arange(512, dtype=np.uint16) // 2, (512, 1)).astype(np.uint8)
    photo = Photo(pixels=astronaut, alpha=alpha, dpi=(300.0, 300.0))
    for name in ("a.png", "b.TIFF", "c.webp"):
        assert write_photo(photo, tmp_path / name, OutputOptions(quality=100)) == ()
        back = read_photo(tmp_path / name)
        np.testing.assert_array_equal(back.alpha, alpha)
        opaque = alpha > 0
        np.testing.assert_array_equal(back.pixels[opaque], astronaut[opaque])
    assert read_photo(tmp_path / "a.png").dpi == pytest.approx((300, 300), abs=0.1)


def test_jpeg_is_good_and_says_what_it_cannot_hold(astronaut, tmp_path):
    write_photo(Photo(pixels=astronaut), tmp_path / "a.jpg")
    with Image.open(tmp_path / "a.jpg") as image:
        assert all(component[1:3] == (1, 1) for component in image.layer)
    error = np.mean((read_photo(tmp_path / "a.jpg").pixels.astype(float) - astronaut) ** 2)
    assert 10 * np.log10(255**2 / error) > 40
    alpha = np.zeros((512, 512), np.uint8)
    notes = write_photo(Photo(pixels=astronaut, alpha=alpha), tmp_path / "b.jpg")
    assert "transparent" in notes[0]
    assert read_photo(tmp_path / "b.jpg").pixels.min() == 255


def test_a_failed_write_leaves_nothing_behind(astronaut, tmp_path, monkeypatch):
    kept = tmp_path / "kept.png"
    kept.write_bytes(b"earlier")

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", fail)
    with pytest.raises(PhotoError, match="No space left"):
        write_photo(Photo(pixels=astronaut), kept)
    assert kept.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [kept]


def test_unknown_endings_are_refused(astronaut, tmp_path):
    for name in ("a", "a.xyz", "a.heic"):
        with pytest.raises(PhotoError, match=r"\.png"):
            write_photo(Photo(pixels=astronaut), tmp_path / name)


def test_own_results_are_known_again(astronaut, tmp_path):
    for suffix in (".png", ".jpg", ".webp", ".tif"):
        own, other = tmp_path / f"own{suffix}", tmp_path / f"other{suffix}"
        write_photo(Photo(pixels=astronaut), own)
        Image.fromarray(astronaut).save(other)
        assert is_own_result(own)
        assert not is_own_result(other)
    (tmp_path / "text.png").write_text("x")
    assert not is_own_result(tmp_path / "text.png")


def test_names_in_any_script(astronaut, tmp_path):
    folder = tmp_path / "Фото 家族 [1]"
    folder.mkdir()
    write_photo(Photo(pixels=astronaut), folder / "тест é.PNG")
    np.testing.assert_array_equal(read_photo(folder / "тест é.PNG").pixels, astronaut)
