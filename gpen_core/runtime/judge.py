"""What compares a face before and after restoration, whatever runs the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gpen_core.types import Pixels

FACE_SIZE_PX = 112
"""Side of the faces it sees, on the ArcFace template."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the judge says of one face."""

    quality: float
    """Of the face before restoration, 0 to 1, 1 best."""
    distance: float
    """Cosine distance of the identity before and after: 0 the same, 1 unrelated."""


class FaceJudge(Protocol):
    """Compares faces before and after restoration."""

    def judge(self, before: Sequence[Pixels], after: Sequence[Pixels]) -> list[Verdict]:
        """A verdict for each pair of (112, 112, 3) RGB faces on the ArcFace template."""
        ...
