"""Sample photos of every kind that people have, made from one public-domain portrait."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageDraw

from gpen_core.photo.deep import turn_array

PORTRAIT = Path(__file__).parent.parent / "examples" / "originals" / "astronaut.jpg"
EXIF_ORIENTATION, EXIF_MAKE, EXIF_GPS = 0x0112, 0x010F, 0x8825
UNDO_TURN = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}
PRIMARIES = ((0.4361, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7141))


def make_photos(folder: Path) -> None:
    """Write them all into `folder`."""
    from pillow_heif import register_heif_opener

    register_heif_opener()
    folder.mkdir(parents=True, exist_ok=True)
    photo = Image.open(PORTRAIT).convert("RGB")
    _make_turned(folder, photo)
    _make_modes(folder, photo)
    _make_formats(folder, photo)
    _make_broken(folder, photo)
    _make_scenes(folder, photo)


def _make_turned(folder: Path, photo: Image.Image) -> None:
    upright = np.asarray(photo)[:384]
    for orientation, undo in UNDO_TURN.items():
        exif = Image.Exif()
        exif[EXIF_ORIENTATION], exif[EXIF_MAKE] = orientation, "TestCam"
        exif.get_ifd(EXIF_GPS)[1] = "N"
        Image.fromarray(turn_array(upright, undo)).save(folder / f"exif{orientation}.jpg", exif=exif, quality=95)


def _make_modes(folder: Path, photo: Image.Image) -> None:
    gray, pixels = photo.convert("L"), np.asarray(photo)
    opacity = Image.new("L", photo.size, 0)
    ImageDraw.Draw(opacity).ellipse((96, 16, 420, 500), fill=255)
    cut_out, gray_cut_out = photo.copy(), gray.copy()
    cut_out.putalpha(opacity)
    gray_cut_out.putalpha(opacity)
    cut_out.save(folder / "rgba.png")
    gray_cut_out.save(folder / "la.png")
    cut_out.quantize(64).save(folder / "pal_alpha.png")
    photo.convert("P").save(folder / "pal.png")
    photo.convert("1").save(folder / "bit1.png")
    gray.save(folder / "gray.png")
    gray.save(folder / "gray.jpg", quality=95)
    photo.convert("CMYK").save(folder / "cmyk.jpg", quality=95)
    cv2.imwrite(str(folder / "gray16.png"), np.asarray(gray).astype(np.uint16) * 257)
    cv2.imwrite(str(folder / "rgb16.png"), pixels[..., ::-1].astype(np.uint16) * 257)
    cv2.imwrite(str(folder / "rgb16.tif"), pixels[..., ::-1].astype(np.uint16) * 257)
    cv2.imwrite(str(folder / "rgba16.png"), np.asarray(cut_out)[..., [2, 1, 0, 3]].astype(np.uint16) * 257)
    Image.fromarray(np.asarray(gray).astype(np.float32) / 255).save(folder / "float.tif")
    # Red and blue exchanged: a lost profile is obvious.
    for suffix in ("jpg", "png"):
        photo.save(folder / f"icc_swap.{suffix}", icc_profile=rgb_profile(*PRIMARIES[::-1]))


Primary = tuple[float, float, float]


def rgb_profile(red: Primary, green: Primary, blue: Primary) -> bytes:
    """A minimal RGB matrix profile (ICC v2) with gamma 2.2 and these primaries, in XYZ under D50."""

    def xyz(values: Primary) -> bytes:
        return b"XYZ \0\0\0\0" + b"".join(struct.pack(">i", round(value * 65536)) for value in values)

    tags = {
        b"desc": b"desc\0\0\0\0" + struct.pack(">I", 5) + b"test\0" + b"\0" * 78,
        b"cprt": b"text\0\0\0\0none\0",
        b"wtpt": xyz((0.9642, 1, 0.8249)),
        b"rXYZ": xyz(red),
        b"gXYZ": xyz(green),
        b"bXYZ": xyz(blue),
    }
    for name in (b"rTRC", b"gTRC", b"bTRC"):
        tags[name] = b"curv\0\0\0\0" + struct.pack(">IH", 1, 563)
    body, table, offset = b"", struct.pack(">I", len(tags)), 128 + 4 + 12 * len(tags)
    for name, value in tags.items():
        table += name + struct.pack(">II", offset + len(body), len(value))
        body += value + b"\0" * (-len(value) % 4)
    size = 128 + len(table) + len(body)
    head = struct.pack(">I4sI4s4s4s", size, b"none", 0x02100000, b"mntr", b"RGB ", b"XYZ ") + b"\0" * 12 + b"acsp"
    head += b"\0" * 28 + struct.pack(">iii", 63190, 65536, 54061)
    return head.ljust(128, b"\0") + table + body


def _make_formats(folder: Path, photo: Image.Image) -> None:
    photo.save(folder / "rgb.png")
    photo.save(folder / "rgb.jpg", quality=95)
    photo.save(folder / "photo.avif")
    photo.save(folder / "photo.heic", quality=90)
    photo.save(folder / "photo.webp", lossless=True)
    photo.save(folder / "photo.jfif", format="JPEG")
    photo.save(folder / "multi.mpo", save_all=True, append_images=[photo.rotate(90)])
    photo.save(folder / "png_named.jpg", format="PNG")
    frames = [photo.resize((256, 256)).rotate(25 * number) for number in range(4)]
    for suffix in ("gif", "webp"):
        frames[0].save(folder / f"anim.{suffix}", save_all=True, append_images=frames[1:])


def _make_broken(folder: Path, photo: Image.Image) -> None:
    (folder / "zero.jpg").write_bytes(b"")
    (folder / "text.jpg").write_text("not an image\n")
    (folder / "heic_head.jpg").write_bytes(b"\0\0\0\x18ftypheic" + b"\0" * 200)
    file = io.BytesIO()
    photo.save(file, "JPEG", quality=95)
    content = file.getvalue()
    (folder / "no_tail.jpg").write_bytes(content[:-60])
    (folder / "half.jpg").write_bytes(content[: len(content) // 2])
    Image.new("1", (14_000, 14_000)).save(folder / "huge.png")


def _make_scenes(folder: Path, photo: Image.Image) -> None:
    for width, height in ((1, 1), (2, 2), (3, 2), (7, 9), (101, 101), (333, 517), (1, 2000), (2000, 3)):
        photo.resize((width, height)).save(folder / f"size_{width}x{height}.png")
    photo.crop((165, 45, 285, 185)).resize((1200, 1400), Image.Resampling.BICUBIC).save(folder / "closeup.png")
    photo.rotate(90, expand=True).save(folder / "rot90.png")
    photo.rotate(180).save(folder / "rot180.png")
    photo.rotate(35, expand=True).save(folder / "tilt35.png")
    photo.crop((205, 0, 512, 512)).save(folder / "cut_left.png")
    photo.crop((0, 100, 512, 512)).save(folder / "cut_top.png")
    photo.resize((64, 64)).resize((512, 512), Image.Resampling.BILINEAR).save(folder / "lowq.png")
    wide = Image.new("RGB", (4500, 3000), (128, 128, 128))
    wide.paste(photo.resize((96, 96)), (2200, 1400))
    wide.save(folder / "tiny_face_13mp.jpg")
    crowd = Image.new("RGB", (2048, 1536), "gray")
    face = photo.crop((120, 0, 340, 220)).resize((150, 150))
    for number in range(48):
        crowd.paste(face, (number % 8 * 250 + 20, number // 8 * 250 + 20))
    crowd.save(folder / "crowd48.png")
    noise = np.random.default_rng(0).integers(0, 255, (512, 512, 3)).astype(np.uint8)
    Image.fromarray(noise).save(folder / "noise.png")
    sepia = np.asarray(photo.convert("L"))[..., None] * np.array([1.0, 0.86, 0.67])
    Image.fromarray(np.clip(sepia, 0, 255).astype(np.uint8)).save(folder / "sepia.png")
