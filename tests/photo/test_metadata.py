"""What a file says beside its pixels is kept, put right, left out on request, and marked."""

from __future__ import annotations

import io

import pytest
from PIL import Image, ImageOps
from pillow_heif import register_heif_opener

from gpen_core.options import OutputOptions
from gpen_core.photo.formats import suffix_for
from gpen_core.photo.io import read_photo
from gpen_core.photo.metadata import AI_SOURCE, is_own_result, marked_xmp, xmp_to_keep
from gpen_core.photo.write import write_photo

XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    b'<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:tiff="http://ns.adobe.com/tiff/1.0/"'
    b' tiff:Orientation="6"><dc:title>Grandmother</dc:title></rdf:Description></rdf:RDF></x:xmpmeta>'
)


def phone_photo(pixels, format_="JPEG") -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010F] = "TestCam"
    exif.get_ifd(0x8769)[0x9003] = "2001:02:03 04:05:06"
    exif.get_ifd(0x8825)[1] = "N"
    exif.get_ifd(0x8825)[2] = (48.0, 12.0, 30.0)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format_, exif=exif, xmp=XMP, dpi=(300, 300))
    return file.getvalue()


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
def test_everything_is_kept_and_nothing_turned_twice(suffix, astronaut, tmp_path):
    photo = read_photo(phone_photo(astronaut[:384]))
    assert (photo.width, photo.height) == (384, 512)
    path = tmp_path / f"out{suffix}"
    write_photo(photo, path)
    with Image.open(path) as written:
        exif = written.getexif()
        assert ImageOps.exif_transpose(written).size == (384, 512)
        assert exif[0x010F] == "TestCam"
        assert exif.get_ifd(0x8769)[0x9003] == "2001:02:03 04:05:06"
        assert exif.get_ifd(0x8825)[1] == "N"
        assert exif.get_ifd(0x8825)[2] == (48.0, 12.0, 30.0)
        xmp = written.info["xmp"]
        assert b"Grandmother" in xmp
        assert b'tiff:Orientation="1"' in xmp
        assert AI_SOURCE.encode() not in xmp
        if suffix != ".webp":
            assert written.info["dpi"] == pytest.approx((300, 300), abs=0.1)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
def test_stripped_results_tell_nothing_but_that_ai_made_them(suffix, astronaut, tmp_path):
    path = tmp_path / f"out{suffix}"
    write_photo(read_photo(phone_photo(astronaut)), path, OutputOptions(strip_metadata=True), has_ai=True)
    content = path.read_bytes()
    for secret in (b"TestCam", b"2001:02:03", b"Grandmother"):
        assert secret not in content
    with Image.open(path) as written:
        assert not written.getexif().get_ifd(0x8825)
        assert AI_SOURCE in written.info["xmp"].decode()
    assert is_own_result(path)


def test_the_mark_is_there_once_however_often(astronaut):
    once = marked_xmp(xmp_to_keep(XMP))
    twice = marked_xmp(once)
    assert once.count(AI_SOURCE.encode()) == twice.count(AI_SOURCE.encode()) == 1
    assert b"Grandmother" in twice
    other = XMP.replace(b' tiff:Orientation="6"', b' Iptc4xmpExt:DigitalSourceType="camera"')
    assert b'"camera"' not in marked_xmp(xmp_to_keep(other))
    assert marked_xmp(None).count(AI_SOURCE.encode()) == 1


def test_broken_xmp_is_left_out():
    for broken in (b"\xff\xfe<", b"no rdf here", b""):
        assert xmp_to_keep(broken) is None


def test_metadata_larger_than_jpeg_holds_is_named(astronaut, tmp_path):
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x010E] = "x" * 70_000
    Image.fromarray(astronaut).save(file, "PNG", exif=exif)
    photo = read_photo(file.getvalue())
    assert write_photo(photo, tmp_path / "out.png") == ()
    assert "larger than JPEG can hold" in write_photo(photo, tmp_path / "out.jpg")[0]


def test_heic_is_read_with_its_metadata(astronaut, tmp_path):
    path = tmp_path / "photo.jpg"  # by content, whatever the name says
    register_heif_opener()
    path.write_bytes(phone_photo(astronaut, "HEIF"))
    photo = read_photo(path)
    assert photo.pixels.shape == astronaut.shape
    assert b"TestCam" in photo.exif
    assert suffix_for("IMG_1.HEIC") == ".jpg"


def test_endings_of_results():
    assert [suffix_for(name) for name in ("a.JPG", "a.bmp", "a.mpo", "a.b.tiff", "a")] == [
        ".JPG",
        ".png",
        ".jpg",
        ".tiff",
        ".png",
    ]
    assert [suffix_for("a.JPEG", form) for form in ("jpeg", "png", "webp", "tiff")] == [
        ".JPEG",
        ".png",
        ".webp",
        ".tif",
    ]


def test_jpeg_options(astronaut, tmp_path):
    import numpy as np

    from gpen_core.types import Photo

    photo = Photo(pixels=astronaut, alpha=np.zeros((512, 512), np.uint8))
    notes = write_photo(photo, tmp_path / "a.jpg", OutputOptions(subsampling="4:2:0", matte="black"))
    assert "black" in notes[0]
    with Image.open(tmp_path / "a.jpg") as image:
        assert image.layer[0][1:3] == (2, 2)
        assert image.getpixel((9, 9)) == (0, 0, 0)


def test_noise_can_be_written_in_every_format(tmp_path):
    import numpy as np

    noise = read_photo(np.random.default_rng(0).integers(0, 256, (512, 512, 3)).astype(np.uint8))
    for suffix in (".jpg", ".png", ".webp", ".tif"):
        write_photo(noise, tmp_path / f"noise{suffix}", OutputOptions(quality=100))
