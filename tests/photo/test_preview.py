from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from gpen_core.photo.preview import PREVIEW_LONG_SIDE_PX, write_preview
from gpen_core.types import Photo


def test_previews_are_light_and_alike(tmp_path: Path) -> None:
    size = (PREVIEW_LONG_SIDE_PX * 2, 100)
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    for name, color in (("before.jpg", 10), ("after.jpg", 200)):
        write_preview(Photo(pixels=pixels + np.uint8(color), alpha=np.zeros_like(pixels[:, :, 0])), tmp_path / name)
        with Image.open(tmp_path / name) as image:
            assert image.size == (PREVIEW_LONG_SIDE_PX, 50)
            assert image.getpixel((0, 0)) == (255, 255, 255)
