"""What a restoration hands from one of its three parts to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gpen_core.clock import StageClock
from gpen_core.faces.align import extract_crop
from gpen_core.faces.search import FoundFaces
from gpen_core.options import RestoreOptions
from gpen_core.photo.background import Background
from gpen_core.photo.color import Tone
from gpen_core.photo.inpaint_mask import InpaintMask
from gpen_core.runtime.crops import RestoredCrops
from gpen_core.tasks import Task
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
    """As the task has adapted them."""
    clock: StageClock
    task: Task
    mask: InpaintMask | None = None
    """Of the photo; None for tasks that need none."""
    notes: tuple[str, ...] = ()
    """What the task has to say."""

    @property
    def is_replacing(self) -> bool:
        return self.task.is_replacing

    @property
    def has_labels(self) -> bool:
        return self.task.takes_label_map

    @property
    def canvas_mask(self) -> InpaintMask | None:
        """The mask at the result's size."""
        height, width = self.background.canvas.shape[:2]
        return None if self.mask is None else self.mask.resized(width, height)

    @property
    def shown_crops(self) -> list[Pixels]:
        """What the network sees of each crop."""
        return [
            self.show(
                crop.pixels,
                None if self.mask is None else extract_crop(self.mask.levels, crop.affine, len(crop.pixels)),
            )
            for crop in self.crops.values()
        ]

    def show(self, seen: Pixels, mask: Pixels | None) -> Pixels:
        """See `Task.show`."""
        return self.task.show(seen, mask)

    def settle(self, seen: Pixels, answer: Pixels) -> Pixels:
        """See `Task.settle`."""
        return self.task.settle(seen, answer, self.tone, self.options)


class NetworkAnswer(NamedTuple):
    """What GPEN made of a photo."""

    ran: RestoredCrops
    """Of its faces."""
    whole: WholePicture | None
