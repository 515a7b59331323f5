"""Small ICC profiles for tests."""

from __future__ import annotations

from benchmarks.photo_kinds import PRIMARIES, rgb_profile

WIDE = ((0.7977, 0.2880, 0.0), (0.1352, 0.7119, 0.0), (0.0313, 0.0001, 0.8249))
"""The primaries of ProPhoto RGB, which holds far more colours than sRGB."""
P3 = ((0.5151, 0.2412, -0.0011), (0.2920, 0.6922, 0.0419), (0.1571, 0.0666, 0.7841))
"""Those of Display P3, which phones take photos in."""


def swapped_primaries_profile() -> bytes:
    """sRGB with red and blue exchanged, so that a lost profile is obvious."""
    return rgb_profile(*PRIMARIES[::-1])


def wide_profile() -> bytes:
    return rgb_profile(*WIDE)


def p3_profile() -> bytes:
    return rgb_profile(*P3)
