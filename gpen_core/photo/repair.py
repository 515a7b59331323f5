"""Complete picture files whose end is missing, and say how much of the picture is."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass

import numpy as np
from PIL import Image

MAX_MISSING_SHARE = 0.02
"""Of a picture's rows: what may be missing without asking. A file cut off in its last bytes loses less."""
JPEG_START, JPEG_END, JPEG_SCAN = 0xD8, 0xD9, 0xDA
JPEG_PROGRESSIVE = 0xC2
JPEG_MISSING_LEVEL = 128
"""What decoders show for blocks that are not in the file: all coefficients zero, which is this gray."""
MAX_PNG_BYTES = 500_000_000
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""x, y of the first pixel and steps of each pass of an interlaced PNG (PNG specification, 8.2)."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A file that decodes again."""

    content: bytes
    missing_share: float | None
    """Share of the picture that is lost, 0 to 1; None where only the decoded pixels tell."""


def complete(content: bytes) -> Completed | None:
    """The file with its end put back: JPEG and PNG. None for others, and where its head is damaged too."""
    if content.startswith(b"\xff\xd8\xff"):
        return _complete_jpeg(content)
    if content.startswith(PNG_SIGNATURE):
        return _complete_png(content)
    return None


def missing_rows_share(completed_jpeg: bytes) -> float:
    """Share of a completed JPEG's rows, from the bottom, that its file did not hold."""
    with Image.open(io.BytesIO(completed_jpeg), formats=("JPEG",)) as image:
        # As decoded, before any profile changes the gray; CMYK is stored inverted.
        levels = np.asarray(image).astype(np.int16).reshape(image.height, -1)
    is_missing = (abs(levels - JPEG_MISSING_LEVEL) <= 1).all(axis=1)
    present = np.flatnonzero(~is_missing)
    return 1.0 - (int(present[-1]) + 1) / len(levels) if len(present) else 1.0


def _complete_jpeg(content: bytes) -> Completed | None:
    """A progressive picture is lost unless the last band of each colour had begun: it has all rows, but blurred."""
    scans = _jpeg_scans(content)
    if not scans:
        return None
    is_lost = any(is_progressive for is_progressive, _, _ in scans)
    if is_lost:
        components = {component for _, of, _ in scans for component in of}
        fine = {component for _, of, last in scans if last == 63 for component in of}
        is_lost = fine != components
    return Completed(content + bytes((0xFF, JPEG_END)), 1.0 if is_lost else None)


def _jpeg_scans(content: bytes) -> list[tuple[bool, tuple[int, ...], int]]:
    """Each scan: whether the picture is progressive, its components, its last coefficient (63 is the finest)."""
    scans: list[tuple[bool, tuple[int, ...], int]] = []
    is_progressive, position = False, 2
    while True:
        position = content.find(b"\xff", position)
        if position < 0 or position + 4 > len(content):
            return scans
        marker = content[position + 1]
        # Stuffed bytes and restart markers belong to a scan's data; fill bytes precede a marker.
        if marker in (0x00, 0xFF, 0x01) or 0xD0 <= marker <= JPEG_END:
            position += 1 if marker == 0xFF else 2
            continue
        length = struct.unpack_from(">H", content, position + 2)[0]
        body = content[position + 4 : position + 2 + length]
        is_progressive |= marker == JPEG_PROGRESSIVE
        if marker == JPEG_SCAN and body and len(body) >= 2 * body[0] + 3:
            scans.append((is_progressive, tuple(body[1 : 1 + 2 * body[0] : 2]), body[2 * body[0] + 2]))
        position += 2 + length


def _complete_png(content: bytes) -> Completed | None:
    if len(content) < 33:
        return None
    width, height, depth, color, _, _, interlace = struct.unpack_from(">IIBBBBB", content, 16)
    head, position, compressed = content[:33], 33, bytearray()
    while position + 8 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, position)
        body = content[position + 8 : position + 8 + length]
        if kind == b"IDAT":
            compressed += body
        elif not compressed and len(body) == length:
            head += content[position : position + 12 + length]
        position += 12 + length
    if color not in PNG_CHANNELS or not compressed:
        return None
    expected = _png_raw_bytes(width, height, depth * PNG_CHANNELS[color], bool(interlace))
    # A damaged head can ask for any size; the reader's limit of megapixels lies below this.
    if not 0 < expected <= MAX_PNG_BYTES:
        return None
    raw = bytearray()
    decoder = zlib.decompressobj()
    try:
        raw += decoder.decompress(bytes(compressed), expected)
    except zlib.error:
        return None
    missing = max(0, expected - len(raw))
    raw += bytes(missing)
    data = zlib.compress(bytes(raw), 1)
    return Completed(head + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b""), missing / max(expected, 1))


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """A PNG chunk with its length and checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _png_raw_bytes(width: int, height: int, bits: int, is_interlaced: bool) -> int:
    """Bytes of all rows, each with its filter byte."""
    passes = ADAM7 if is_interlaced else ((0, 0, 1, 1),)
    total = 0
    for x, y, step_x, step_y in passes:
        columns, rows = max(0, -(-(width - x) // step_x)), max(0, -(-(height - y) // step_y))
        total += rows * (1 + -(-columns * bits // 8)) if columns else 0
    return total
