"""Whether mode whole shows its tiles: python -m benchmarks.seam [--photo FILE] [--sheet docs/whole-tiles.jpg]

Restores a portrait in tiles of several sizes and overlaps, and measures the step along the tiles' borders against the
picture's own gradient: 1 means that they do not show. Hard is the same without the windows, for comparison.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageDraw

from benchmarks.report import print_machine, print_table, write_json
from gpen_core import RestoreOptions, Restorer
from gpen_core.evaluation.seams import Borders, borders_of_lines, seam_heat_map, seam_ratio
from gpen_core.photo.io import read_photo
from gpen_core.photo.tiling import TilePlan
from gpen_core.types import Pixels
from gpen_core.whole import PlainTiles, plan_whole, restore_whole

PHOTO = Path(__file__).parent.parent / "examples" / "originals" / "obama.jpg"
SIZE_PX = (1500, 1100)
TILES_PX = (192, 256, 512, 1024)
OVERLAP_SHARES = (0, 4, 2)
"""Of the tile: none, a quarter, a half."""
QUALITY = 40
"""Of the JPEG that the portrait is damaged with, so that the model has something to do."""
PANEL_PX = 480


def portrait(path: Path) -> Pixels:
    """The middle of a photo at `SIZE_PX`, compressed."""
    pixels = read_photo(path).pixels
    height, width = pixels.shape[:2]
    shown = min(height, round(width * SIZE_PX[1] / SIZE_PX[0]))
    top = (height - shown) // 3
    large = cv2.resize(pixels[top : top + shown], SIZE_PX, interpolation=cv2.INTER_CUBIC)
    _, coded = cv2.imencode(".jpg", large, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return np.asarray(cv2.imdecode(coded, cv2.IMREAD_COLOR), dtype=np.uint8)


def restore(photo: Pixels, plan: TilePlan, restorer: Restorer) -> Pixels:
    """The photo in these tiles."""
    options = RestoreOptions(mode="whole")
    found = restore_whole(photo, plan, restorer.crop_restorer, PlainTiles(), options, lambda step: None)
    return found.pixels


def borders_of(photo: Pixels, plan: TilePlan) -> Borders:
    return borders_of_lines((photo.shape[0], photo.shape[1]), *plan.borders())


def panel(pixels: Pixels, label: str) -> Image.Image:
    """A reduced picture with a line of text."""
    height = round(PANEL_PX * pixels.shape[0] / pixels.shape[1])
    image = Image.new("RGB", (PANEL_PX, height + 16), "white")
    image.paste(Image.fromarray(pixels).resize((PANEL_PX, height), Image.Resampling.LANCZOS), (0, 16))
    ImageDraw.Draw(image).text((4, 2), label, fill="black")
    return image


def main() -> None:
    parser = argparse.ArgumentParser(description="Whether mode whole shows its tiles.")
    parser.add_argument("--photo", type=Path, default=PHOTO, help="(default: an example)")
    parser.add_argument("--model", default="starter-256", help="(default: %(default)s)")
    parser.add_argument("--sheet", type=Path, help="also draw results and heat maps")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    machine = print_machine()
    restorer = Restorer(arguments.model)
    photo = portrait(arguments.photo)
    figures: list[dict[str, float]] = []
    rows: list[list[Image.Image]] = []
    for tile_px in TILES_PX:
        for share in OVERLAP_SHARES:
            options = RestoreOptions(mode="whole", tile_px=tile_px, overlap_px=tile_px // share if share else 0)
            plan = plan_whole(*SIZE_PX, restorer.crop_restorer.size, options)
            borders = borders_of(photo, plan)
            after = restore(photo, plan, restorer)
            figure = {"tile_px": tile_px, "overlap_px": plan.overlap_px, "ratio": seam_ratio(after, borders, photo)}
            if share == 4:
                hard = restore(photo, replace(plan, is_blended=False), restorer)
                figure["hard_ratio"] = seam_ratio(hard, borders, photo)
                label = f"tile {tile_px}, overlap {plan.overlap_px}: {figure['ratio']:.3f}"
                heat = panel(seam_heat_map(after, borders, photo), "its borders: blue does not show, red doubles steps")
                hard_heat = panel(seam_heat_map(hard, borders, photo), f"without windows: {figure['hard_ratio']:.3f}")
                rows.append([panel(after, label), heat, hard_heat])
            figures.append(figure)
    keys = ("tile_px", "overlap_px", "ratio", "hard_ratio")
    cells = [[f"{figure[key]:.4g}" if key in figure else "" for key in keys] for figure in figures]
    print_table(["tile px", "overlap px", "ratio", "hard"], cells)
    write_json(arguments.json, {"machine": machine, "model": arguments.model, "figures": figures})
    if arguments.sheet:
        width, height = (sum(image.size[0] for image in rows[0]), sum(row[0].size[1] for row in rows))
        sheet = Image.new("RGB", (width, height), "white")
        for y, row in enumerate(rows):
            for x, image in enumerate(row):
                sheet.paste(image, (x * PANEL_PX, y * image.size[1]))
        sheet.save(arguments.sheet, quality=80)


if __name__ == "__main__":
    main()
