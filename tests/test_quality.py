"""Does the embedded model improve real, heavily degraded faces? Measured, not asserted from memory."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from skimage.metrics import peak_signal_noise_ratio

from gpen_core.evaluation.degrade import LEVELS, degrade
from gpen_core.faces.align import align_face, template_points
from gpen_core.faces.detect import EmbeddedDetector
from gpen_core.faces.mask import EllipseMask
from gpen_core.faces.search import find_faces
from gpen_core.options import RestoreOptions

SIZE = 256
NO_SHIFT = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


@pytest.fixture(scope="module")
def truths(examples):
    """Aligned 256 px crops of the shippable portraits."""
    crops = []
    for name in ("astronaut.jpg", "biden.jpg", "obama.jpg"):
        photo = np.asarray(Image.open(examples / "originals" / name).convert("RGB"))
        face = find_faces(EmbeddedDetector(), photo, RestoreOptions()).faces[0]
        crops.append(align_face(photo, face.landmarks, "ffhq", SIZE).pixels)
    return crops


def test_heavily_degraded_faces_come_nearer_to_the_truth(truths, starter, capsys):
    region = EllipseMask("ffhq", SIZE).weights(NO_SHIFT, 0, 0, SIZE, SIZE) > 0.5

    def psnr(truth, pixels):
        return peak_signal_noise_ratio(truth[region], pixels[region], data_range=255)

    before, after = [], []
    for truth in truths:
        for seed in range(4):
            damaged = degrade(truth, LEVELS["heavy"], seed)
            ran = starter.crop_restorer.restore_crops([damaged], lambda done: None)
            before.append(psnr(truth, damaged))
            after.append(psnr(truth, ran.crops[0]))
    with capsys.disabled():
        print(f"\nstarter, heavy: {np.mean(before):.2f} dB -> {np.mean(after):.2f} dB over the face region")
    assert np.mean(after) > np.mean(before)


def test_a_heavily_degraded_photo_is_found_restored_and_nearer_to_the_truth(starter, examples, capsys):
    truth = np.asarray(Image.open(examples / "originals" / "astronaut.jpg").convert("RGB"))
    damaged = degrade(truth, LEVELS["heavy"], 0)
    result = starter.restore(damaged)
    assert result.num_shown == 1
    eye_distance = result.faces[0].face.eye_distance_px
    template = template_points("ffhq", SIZE)
    assert 0.3 < eye_distance / (template[1] - template[0])[0] < 3
    x0, y0, x1, y1 = (round(value) for value in result.faces[0].face.box)
    region = np.s_[y0:y1, x0:x1]
    before = peak_signal_noise_ratio(truth[region], damaged[region])
    after = peak_signal_noise_ratio(truth[region], result.photo.pixels[region])
    with capsys.disabled():
        print(f"\nwhole photo, heavy: {before:.2f} dB -> {after:.2f} dB over the face box")
    assert after > before
