"""Make docs/before-after.jpg from the examples: .venv/bin/python docs/make_before_after.py

Left the example at four times its size without restoration, right the same, the faces restored by the starter model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from gpen_core import RestoreOptions, Restorer

EXAMPLES = Path(__file__).parent.parent / "examples"
SCALE = 4
ROWS = {"astronaut-small.jpg": (80, 20, 200, 125), "astronaut-gray-noisy.png": (146, 25, 306, 165)}
"""Example and the part of it shown: left, top, right, bottom in its own px."""
HEIGHT_PX = 420


def panel(name: str, part: tuple[int, int, int, int]) -> Image.Image:
    """Before and after of one example, side by side."""
    result = Restorer("starter-256").restore(EXAMPLES / name, RestoreOptions(scale=SCALE))
    left, top, right, bottom = (value * SCALE for value in part)
    sides = [
        pixels[top:bottom, left:right] for pixels in (result.recompose(strength=0).photo.pixels, result.photo.pixels)
    ]
    gap = np.full((sides[0].shape[0], 12, 3), 255, np.uint8)
    joined = Image.fromarray(np.concatenate((sides[0], gap, sides[1]), axis=1))
    return joined.resize((round(joined.width * HEIGHT_PX / joined.height), HEIGHT_PX), Image.Resampling.LANCZOS)


def main() -> None:
    panels = [panel(name, part) for name, part in ROWS.items()]
    sheet = Image.new("RGB", (max(p.width for p in panels), sum(p.height for p in panels) + 12), "white")
    top = 0
    for picture in panels:
        sheet.paste(picture, (0, top))
        top += picture.height + 12
    sheet.save(Path(__file__).parent / "before-after.jpg", quality=88)


if __name__ == "__main__":
    main()
