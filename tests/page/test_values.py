"""From controls to options."""

from __future__ import annotations

from typing import Any

import pytest

from gpen_core.errors import OptionError
from gpen_core.options import RestoreOptions, default
from page.values import AUTOMATIC, NAMES, acceptable, choose, owner_of


def values(**changes: Any) -> dict[str, Any]:
    unchanged = {name: default(owner_of(name), name) for name in NAMES if name != AUTOMATIC}
    return {**unchanged, AUTOMATIC: False, "tile_px": 0, "overlap_px": 0, **changes}


def test_untouched_controls_are_the_defaults() -> None:
    chosen = choose(values())
    assert chosen.options == RestoreOptions()
    assert chosen.notes == ()


@pytest.mark.parametrize(
    ("mode", "asked", "used", "num_notes"),
    [
        ("faces", (192, 0), (128, "auto"), 1),
        ("faces", (2048, 0), (1024, "auto"), 1),
        ("faces", (8, 0), (16, "auto"), 1),
        ("faces", (128, 128), (128, 64), 1),
        ("faces", (192.0, 128), (128, 64), 2),
        ("whole", (192, 96), (192, 96), 0),
        ("whole", (0, 96), ("auto", 96), 0),
    ],
)
def test_tiles_that_do_not_fit_are_fitted_and_named(mode: str, asked: Any, used: Any, num_notes: int) -> None:
    chosen = choose(values(mode=mode, tile_px=asked[0], overlap_px=asked[1]))
    assert (chosen.options.tile_px, chosen.options.overlap_px) == used
    assert len(chosen.notes) == num_notes


@pytest.mark.parametrize(
    "wrong", [{"strength": 1.5}, {"model": "gpen"}, {"precision": "fp8"}, {"format": "bmp"}, {"scale": "2"}]
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        choose(values(**wrong))


def test_only_what_a_control_can_show_is_recalled() -> None:
    assert acceptable("scale", 2) and acceptable("tile_px", 0) and acceptable("faces", "all")
    assert not acceptable("scale", 9) and not acceptable("scale", "2") and not acceptable("mask", ["soft"])
    assert not acceptable("precision", "fp8")
