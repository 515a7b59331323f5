"""How long the network waits for files:  python -m benchmarks.overlap [COUNT]

A batch over COUNT photos, compared with the network's own time. The network is a stand-in that sleeps, as a GPU lets
the CPU sleep, and takes SECONDS a face; reading, finding, pasting and writing are real, of photos of one face.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.photo_kinds import PORTRAIT
from gpen_core.batch import restore_folder
from gpen_core.folders import list_photos
from gpen_core.options import RestoreOptions
from gpen_core.restorer import Restorer
from gpen_core.runtime.crops import RestoredCrops
from gpen_core.types import Box, DetectedFace, OnProgress, Pixels

COUNT = 64
SECONDS = 0.2
LANDMARKS = np.array([(202, 101), (247, 103), (226, 127), (206, 141), (244, 142)], dtype=np.float64)


class _OneFace:
    name = "one face"
    is_single_scale = False

    def detect(self, pixels: Pixels, threshold: float) -> list[DetectedFace]:
        return [DetectedFace(box=Box(170, 40, 280, 180), landmarks=LANDMARKS, score=0.99)]


class _Sleeper:
    size, template, model_name, device_name = 256, "ffhq", "sleeper", "none"
    strength_coefficients = None
    slept_s = 0.0

    def restore_crops(
        self, crops: Sequence[Pixels], on_progress: OnProgress, options: RestoreOptions | None = None
    ) -> RestoredCrops:
        start = time.perf_counter()
        time.sleep(SECONDS * len(crops))
        self.slept_s += time.perf_counter() - start
        return RestoredCrops(crops=tuple(crops), precision="fp32", compiled=False)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    with tempfile.TemporaryDirectory() as folder:
        photos = Path(folder, "photos")
        photos.mkdir()
        image = Image.open(PORTRAIT).convert("RGB")
        for number in range(count):
            image.save(photos / f"{number:03d}.jpg", quality=95)
        network = _Sleeper()
        restorer = Restorer(detector=_OneFace(), crop_restorer=network)
        listed = list_photos(photos).photos
        restorer.restore(listed[0])
        network.slept_s, start = 0.0, time.perf_counter()
        done = sum(
            outcome.status == "restored"
            for outcome in restore_folder(restorer, listed, Path(folder, "out"), RestoreOptions())
        )
        took_s = time.perf_counter() - start
    alone_s = network.slept_s
    print(f"{done} photos in {took_s:.2f} s; the network alone {alone_s:.2f} s; {took_s / alone_s:.3f} times that")


if __name__ == "__main__":
    main()
