"""What a GPEN is for: what its network sees of a face, and what of its answer counts.

The authors publish one network for four tasks and differ in these two steps only (`face_colorization.py`,
`face_inpainting.py`, `segmentation2face.py` of yangxy/GPEN). Pictures are (S, S, 3) uint8 RGB crops, or tiles of the
same size where a picture is seen as a whole.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Protocol

import numpy as np

from gpen_core.errors import OptionError, PhotoError
from gpen_core.options import RestoreOptions
from gpen_core.photo.color import Tone, luma, to_levels
from gpen_core.photo.texture import lock_color
from gpen_core.types import SIGNED_RANGE, UNIT_RANGE, Photo, Pixels, ValueRange


class Task(Protocol):
    """One of them. Instances hold nothing and are shared."""

    name: str
    done: str
    """What became of a face, for people: `restored`."""
    note: str
    """What has to be known of every such result; empty where there is nothing."""
    needs_mask: bool
    takes_label_map: bool
    """The picture is a map of face parts and no photo: it is square, seen whole, and no face is searched in it."""
    is_replacing: bool
    """The answer takes the picture's place; else what the network changed is added to it."""
    value_range: ValueRange
    """Of the network's input and output."""

    def adapt(self, options: RestoreOptions) -> RestoreOptions:
        """The options without those that make no sense here."""
        ...

    def show(self, seen: Pixels, mask: Pixels | None) -> Pixels:
        """What the network sees of a crop.

        Args:
            seen: the crop.
            mask: the same crop of the inpainting mask, above 0 where it is marked, where there is one.
        """
        ...

    def settle(self, seen: Pixels, answer: Pixels, tone: Tone | None, options: RestoreOptions) -> Pixels:
        """What of the network's answer counts.

        Args:
            seen: the crop as it is in the photo.
            answer: the network's.
            tone: of a photo that has only one; None where it may have any colour.
            options: as they were adapted.
        """
        ...


class Restore:
    """Faces become sharp and clean."""

    name = "restore"
    done = "restored"
    note = ""
    needs_mask = takes_label_map = is_replacing = False
    value_range = SIGNED_RANGE

    def adapt(self, options: RestoreOptions) -> RestoreOptions:
        return options

    def show(self, seen: Pixels, mask: Pixels | None) -> Pixels:
        return seen

    def settle(self, seen: Pixels, answer: Pixels, tone: Tone | None, options: RestoreOptions) -> Pixels:
        if options.lock_color:
            answer = lock_color(seen, answer)
        return answer if tone is None else tone.recolor(seen, answer)


class Colorize:
    """Gray faces get colours; every pixel keeps its brightness."""

    name = "colorize"
    done = "colorized"
    note = "The colours are a network's guess; nobody knows the true ones."
    needs_mask = takes_label_map = is_replacing = False
    value_range = SIGNED_RANGE

    def adapt(self, options: RestoreOptions) -> RestoreOptions:
        return replace(options, keep_tone=False, lock_color=False, sharp_faces="restore")

    def show(self, seen: Pixels, mask: Pixels | None) -> Pixels:
        return np.repeat(to_levels(luma(seen))[..., None], 3, axis=2)

    def settle(self, seen: Pixels, answer: Pixels, tone: Tone | None, options: RestoreOptions) -> Pixels:
        # The authors put the input's Y into the answer's YUV, which moves R, G and B alike, and cut off what leads out
        # of 0 to 255, which changes Y again; here the colour becomes paler until it fits.
        brightness = luma(seen)[..., None]
        colour = answer - luma(answer)[..., None]
        room = np.where(colour > 0, 255.0 - brightness, brightness)
        share = np.min(room / np.maximum(np.abs(colour), 1e-6), axis=-1, keepdims=True)
        return to_levels(brightness + np.minimum(share, 1.0) * colour)


class Inpaint:
    """Marked parts of faces are painted anew; all else keeps every bit."""

    name = "inpaint"
    done = "filled"
    note = "What was filled is invented: it shows what a face may look like there, not what was there."
    needs_mask = is_replacing = True
    takes_label_map = False
    value_range = SIGNED_RANGE

    def adapt(self, options: RestoreOptions) -> RestoreOptions:
        return replace(options, lock_color=False, sharp_faces="restore", mask="soft")

    def show(self, seen: Pixels, mask: Pixels | None) -> Pixels:
        if mask is None:
            return seen
        # The authors draw white strokes; whatever the mask touches is hidden from the network.
        shown: Pixels = seen.copy()
        shown[mask > 0] = 255
        return shown

    def settle(self, seen: Pixels, answer: Pixels, tone: Tone | None, options: RestoreOptions) -> Pixels:
        if tone is None:
            return answer
        # Not the step in tone, which would start from what is hidden: a scratch has no tone.
        return to_levels(tone.apply(luma(answer)))


class SegmentationToFace:
    """A map of face parts becomes a face that nobody has."""

    name = "seg2face"
    done = "drawn"
    note = "The face was drawn from a map of its parts; it is nobody's."
    needs_mask = False
    takes_label_map = is_replacing = True
    value_range = UNIT_RANGE

    def adapt(self, options: RestoreOptions) -> RestoreOptions:
        return replace(
            options, mode="whole", tile_px=0, overlap_px="auto", background="off", keep_tone=False, lock_color=False
        )

    def show(self, seen: Pixels, mask: Pixels | None) -> Pixels:
        return seen

    def settle(self, seen: Pixels, answer: Pixels, tone: Tone | None, options: RestoreOptions) -> Pixels:
        return answer


TASKS: dict[str, Task] = {task.name: task for task in (Restore(), Colorize(), Inpaint(), SegmentationToFace())}


def unused_options(task: Task, options: RestoreOptions) -> list[str]:
    """A note where options were asked for that the task has no use for."""
    adapted, plain = task.adapt(options), RestoreOptions()
    names = [
        field.name
        for field in fields(RestoreOptions)
        if getattr(options, field.name) not in (getattr(adapted, field.name), getattr(plain, field.name))
    ]
    return [f"Not used for task {task.name}: {', '.join(names)}."] if names else []


def check_mask(task: Task, *, has_mask: bool) -> None:
    """Raise OptionError where a mask is missing, or is there for nothing."""
    if task.needs_mask and not has_mask:
        raise OptionError(
            f"Task {task.name} needs a mask: a picture of the photo's size, white where the photo is to be filled."
        )
    if has_mask and not task.needs_mask:
        raise OptionError(f"A mask was given, and task {task.name} has no use for one; choose task inpaint.")


def check_shape(task: Task, photo: Photo) -> None:
    """Raise PhotoError where a map of face parts is not square, as an aligned face is."""
    if task.takes_label_map and photo.width != photo.height:
        raise PhotoError(
            f"The picture is {photo.width} x {photo.height} px, and task {task.name} takes square maps of one face; "
            "cut it to a square."
        )
