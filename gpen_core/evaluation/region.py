"""Where pictures are compared: the face in a crop of one size and alignment, whatever the models' own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpen_core.faces.mask import EllipseMask
from gpen_core.types import Affine

TEMPLATE = "ffhq"
SIZE_PX = 256
"""Side of the crops that are degraded and compared."""
FACE_WEIGHT = 0.5
"""The face region is where the paste mask is above this: 46 % of the crop."""
IDENTITY: Affine = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
FACE_MASK = EllipseMask(TEMPLATE, SIZE_PX)


def mask_weights() -> npt.NDArray[np.float32]:
    """(SIZE_PX, SIZE_PX) weights in [0, 1] with which a restored face is pasted into such a crop."""
    return FACE_MASK.weights(IDENTITY, 0, 0, SIZE_PX, SIZE_PX)


def face_region() -> npt.NDArray[np.bool_]:
    """(SIZE_PX, SIZE_PX): True where a restored face would be pasted at more than half weight."""
    region: npt.NDArray[np.bool_] = mask_weights() > FACE_WEIGHT
    return region
