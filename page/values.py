"""From the values of controls, by name, to what the core takes. Knows no Gradio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpen_core.options import TILES, OutputOptions, RestoreOptions, RuntimeOptions, allowed

AUTOMATIC = "automatic_strength"
RESTORE = (
    "mode",
    "scale",
    "background",
    "background_strength",
    "faces",
    "threshold",
    "min_face_px",
    "mask",
    "sharp_faces",
    "keep_tone",
    "lock_color",
    "grain",
    "accept_damaged",
)
"""Options that stand for themselves; strength and tiles do not."""
OUTPUT = ("format", "strip_metadata")
NAMES = ("model", "strength", AUTOMATIC, *RESTORE, "tile_px", "overlap_px", "precision", "compile", *OUTPUT)
"""All that a visitor chooses for a photo."""
FIT_TILE = "Tile size {asked} px: {used} px was used, the largest that faces can be cut into."
FIT_OVERLAP = "Tile overlap {asked} px: {used} px was used, half of a tile."


def owner_of(name: str) -> type:
    """The options class that a name belongs to."""
    if name in OUTPUT:
        return OutputOptions
    return RuntimeOptions if name in ("model", "precision", "compile") else RestoreOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """What a visitor chose, checked."""

    model: str
    precision: str
    compile: bool
    options: RestoreOptions
    output: OutputOptions
    notes: tuple[str, ...]
    """Where a control's value was not what the core takes, what was taken instead."""


def choose(values: Mapping[str, Any]) -> Chosen:
    """Check a visitor's values. Sliders for tiles say 0 for automatic.

    Raises:
        OptionError: a value is outside what is allowed.
    """
    notes: list[str] = []
    chosen = {name: values[name] for name in RESTORE}
    strength: Any = "auto" if values[AUTOMATIC] else values["strength"]
    model = values["model"]
    for name in ("model", "precision"):
        allowed(RuntimeOptions, name).check(name, values[name])
    return Chosen(
        model=model,
        precision=values["precision"],
        compile=bool(values["compile"]),
        options=RestoreOptions(strength=strength, **chosen, **_tiles(values, notes)),
        output=OutputOptions(**{name: values[name] for name in OUTPUT}),
        notes=tuple(notes),
    )


def _tiles(values: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    tile_px, overlap_px = int(values["tile_px"] or 0), int(values["overlap_px"] or 0)
    if values["mode"] == "faces" and tile_px > 0:
        sizes = [size for size in TILES if isinstance(size, int) and size > 0]
        fitting = max((size for size in sizes if size <= tile_px), default=sizes[0])
        if fitting != tile_px:
            notes.append(FIT_TILE.format(asked=tile_px, used=fitting))
        tile_px = fitting
    if tile_px > 0 and overlap_px > tile_px // 2:
        notes.append(FIT_OVERLAP.format(asked=overlap_px, used=tile_px // 2))
        overlap_px = tile_px // 2
    return {"tile_px": tile_px or "auto", "overlap_px": overlap_px or "auto"}


def acceptable(name: str, value: Any) -> bool:
    """Whether a value that was remembered is still one that its control can show."""
    if name in ("tile_px", "overlap_px"):
        value = value or "auto"
    if name == AUTOMATIC:
        return isinstance(value, bool)
    try:
        allowed(owner_of(name), name).check(name, value)
    except (ValueError, TypeError):
        return False
    return True
