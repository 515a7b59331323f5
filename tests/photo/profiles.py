"""Small ICC profiles for tests."""

from __future__ import annotations

import struct

RED, GREEN, BLUE = (0.4361, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7141)
"""sRGB's primaries in XYZ under D50."""
WIDE = ((0.7977, 0.2880, 0.0), (0.1352, 0.7119, 0.0), (0.0313, 0.0001, 0.8249))
"""Those of ProPhoto RGB, which holds far more colours."""
P3 = ((0.5151, 0.2412, -0.0011), (0.2920, 0.6922, 0.0419), (0.1571, 0.0666, 0.7841))
"""Those of Display P3, which phones take photos in."""


def rgb_profile(red, green, blue) -> bytes:
    """A minimal v2 profile with these primaries and gamma 2.2."""

    def xyz(values):
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


def swapped_primaries_profile() -> bytes:
    """Red and blue exchanged, so that a lost profile is obvious."""
    return rgb_profile(BLUE, GREEN, RED)


def wide_profile() -> bytes:
    return rgb_profile(*WIDE)


def p3_profile() -> bytes:
    return rgb_profile(*P3)
