"""What a restoration hands from one of its three parts to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpen_core.clock import StageClock
from gpen_core.faces.align import align_face, extract_crop
from gpen_core.faces.search import FoundFaces
from gpen_core.options import RestoreOptions
from gpen_core.photo.background import Background
from gpen_core.photo.color import Tone
from gpen_core.photo.inpaint_mask import InpaintMask
from gpen_core.runtime.crops import RestoredCrops
from gpen_core.tasks import Task
from gpen_core.types import AlignedCrop, DetectedFace, Photo, Pixels
from gpen_core.whole import WholePicture

UNMARKED = "the mask marks nothing of it"


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
    canvas_mask: InpaintMask | None = None
    """What is to be painted anew, at the result's size; None for tasks that need no mask."""
    mask_crops: Mapping[int, Pixels] = field(default_factory=dict)
    """The mask seen as each crop is, by the same index."""
    notes: tuple[str, ...] = ()
    """What the task has to say."""

    @property
    def is_replacing(self) -> bool:
        return self.task.is_replacing

    @property
    def has_labels(self) -> bool:
        return self.task.takes_label_map

    @property
    def shown_crops(self) -> list[Pixels]:
        """What the network sees of each crop."""
        return [self.show(crop.pixels, self.mask_crops.get(index)) for index, crop in self.crops.items()]

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


def align_faces(
    photo: Photo,
    mask: InpaintMask | None,
    faces: Sequence[DetectedFace],
    reasons: list[str],
    template: str,
    size: int,
) -> tuple[dict[int, AlignedCrop], dict[int, Pixels]]:
    """The crops of faces by their index, and the mask seen as each of them is.

    Args:
        photo: that the faces are in.
        mask: of the photo; None for tasks that need none.
        faces: all that were found.
        reasons: why each is left alone, empty where it is not; one that the mask marks nothing of gets a reason here.
        template: alignment of the crops.
        size: their side in px.
    """
    crops: dict[int, AlignedCrop] = {}
    mask_crops: dict[int, Pixels] = {}
    for index, face in enumerate(faces):
        if reasons[index]:
            continue
        crop = align_face(photo.pixels, face.landmarks, template, size)
        if mask is not None:
            mask_crops[index] = extract_crop(mask.levels, crop.affine, size)
            if not mask_crops[index].any():
                reasons[index] = UNMARKED
                continue
        crops[index] = crop
    return crops, mask_crops
