"""What a photo's file says about it: kept, put right where the pixels changed, and marked with what was done."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from PIL import Image

from gpen_core.version import __version__

EXIF_ORIENTATION = 0x0112
EXIF_PROCESSING_SOFTWARE = 0x000B
EXIF_WIDTH, EXIF_HEIGHT = 0xA002, 0xA003
EXIF_IFD = 0x8769
SOFTWARE = "gpen_core"
TIFF_STRUCTURE = frozenset(
    {256, 257, 258, 259, 262, 266, 273, 274, 277, 278, 279, 284, 317, 320, 322, 323, 324, 325, 338, 339, 347, 700}
    | {33723, 34377, 34675}
)
"""TIFF tags that describe how its pixels are stored, or that are carried otherwise; they are no EXIF of the photo."""
BROKEN_EXIF = (OSError, SyntaxError, ValueError, struct.error, KeyError, IndexError, TypeError, OverflowError)
"""What Pillow raises for EXIF that is not what it should be."""

AI_SOURCE = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
"""IPTC's word for a photo in which a trained model repainted a part."""
XMP_START = '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'
XMP_EMPTY = (
    f'{XMP_START}<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '</rdf:RDF></x:xmpmeta><?xpacket end="w"?>'
)
XMP_MARK = (
    '<rdf:Description rdf:about="" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" '
    f'Iptc4xmpExt:DigitalSourceType="{AI_SOURCE}"/>'
)
XMP_SOURCE = re.compile(
    r'\s+Iptc4xmpExt:DigitalSourceType="[^"]*"|<Iptc4xmpExt:DigitalSourceType>[^<]*</Iptc4xmpExt:DigitalSourceType>'
)
XMP_ORIENTATION = re.compile(r'(tiff:Orientation(?:="|>))\d+')
XMP_THUMBNAILS = re.compile(r"<xmp:Thumbnails>.*?</xmp:Thumbnails>", re.DOTALL)
XMP_END = "</rdf:RDF>"


def orientation_of(exif: Image.Exif) -> int:
    """1 to 8; 1 where the tag is absent or means nothing."""
    value = exif.get(EXIF_ORIENTATION, 1)
    return value if value in range(1, 9) else 1


def exif_to_keep(exif: Image.Exif) -> bytes | None:
    """The EXIF block without orientation and thumbnail (Pillow writes none), sizes and storage left out.

    Raises:
        BROKEN_EXIF: it cannot be written back.
    """
    for tag in TIFF_STRUCTURE & set(exif):
        del exif[tag]
    details = exif.get_ifd(EXIF_IFD)
    for tag in (EXIF_WIDTH, EXIF_HEIGHT):
        details.pop(tag, None)
    return exif.tobytes() if len(exif) else None


def marked_exif(exif: bytes | None) -> bytes:
    """`exif` with the name of this program in it, by which it knows its own results again."""
    marked = Image.Exif()
    if exif is not None:
        marked.load(exif)
    marked[EXIF_PROCESSING_SOFTWARE] = f"{SOFTWARE} {__version__}"
    return marked.tobytes()


def xmp_to_keep(xmp: bytes | str | None) -> bytes | None:
    """The XMP packet with its orientation reset and its thumbnails dropped; None where there is none to go on with."""
    if xmp is None:
        return None
    try:
        text = xmp if isinstance(xmp, str) else xmp.decode("utf-8")
    except UnicodeDecodeError:
        return None
    text = text.strip("\0 \r\n\t")
    if XMP_END not in text:
        return None
    return XMP_THUMBNAILS.sub("", XMP_ORIENTATION.sub(r"\g<1>1", text)).encode()


def marked_xmp(xmp: bytes | None) -> bytes:
    """`xmp` saying that AI repainted a part of the picture; IPTC Photo Metadata Standard, Digital Source Type."""
    text = XMP_SOURCE.sub("", xmp.decode()) if xmp else XMP_EMPTY
    head, end, tail = text.rpartition(XMP_END)
    return (head + XMP_MARK + end + tail).encode()


def is_own_result(path: Path) -> bool:
    """Whether `path` is a picture that this program wrote, so that a new run may replace it."""
    try:
        with Image.open(path) as image:
            return str(image.getexif().get(EXIF_PROCESSING_SOFTWARE, "")).startswith(SOFTWARE)
    except (*BROKEN_EXIF, Image.DecompressionBombError):
        return False
