"""What a restoration hands from one of its three parts to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gpen_core.clock import StageClock
from gpen_core.faces.search import FoundFaces
from gpen_core.options import RestoreOptions
from gpen_core.photo.background import Background
from gpen_core.photo.color import Tone
from gpen_core.photo.texture import lock_color
from gpen_core.runtime.crops import RestoredCrops
from gpen_core.types import AlignedCrop, Photo, Pixels
from gpen_core.whole import WholePicture


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PreparedPhoto:
    """A photo whose faces are found and aligned, before GPEN has seen them."""

    photo: Photo
    tone: Tone | None
    background: Background
    found: FoundFaces
    reasons: tuple[str, ...]
    """Why each face is left alone; empty where it is to be restored."""
    crops: dict[int, AlignedCrop]
    """The others, by their index."""
    options: RestoreOptions
    clock: StageClock

    def recolor(self, crop: Pixels, restored: Pixels) -> Pixels:
        """What the network answered for a crop, in the colours it may have."""
        if self.options.lock_color:
            restored = lock_color(crop, restored)
        return restored if self.tone is None else self.tone.recolor(crop, restored)


class NetworkAnswer(NamedTuple):
    """What GPEN made of a photo."""

    ran: RestoredCrops
    """Of its faces."""
    whole: WholePicture | None
