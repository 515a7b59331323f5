"""What a restoration gives back: the picture, what became of each face, and what really ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpen_core.errors import OptionError
from gpen_core.faces.paste import Patch, blend_patches
from gpen_core.options import OutputOptions, RestoreOptions, Strength, allowed
from gpen_core.photo.background import make_canvas
from gpen_core.photo.write import write_photo
from gpen_core.types import Photo, Pixels, RestoredFace, Tiles


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Composition:
    """All that blending needs, so that strength and choice of faces change without a network."""

    canvas: Pixels
    """The photo at the size of the result, without any restored face."""
    whole: Pixels | None = None
    """The canvas restored as a whole, at full strength; None in mode faces."""
    patches: Mapping[int, Patch]
    """Change that each restored face makes to `whole`, or else to `canvas`, by its index."""
    best_strengths: Mapping[int, float | None]
    """What `auto` takes for each of them; None where the model is not calibrated."""

    def strength_of(self, index: int, strength: Strength) -> float:
        """The strength a face is blended at: the one asked for, or its own."""
        if strength != "auto":
            return float(strength)
        best = self.best_strengths[index]
        return 1.0 if best is None else best

    def blend(self, strength: Strength, shown: Iterable[int]) -> Pixels:
        indices = sorted(shown)
        return blend_patches(
            self._base(strength),
            [self.patches[index] for index in indices],
            [self.strength_of(index, strength) for index in indices],
        )

    def _base(self, strength: Strength) -> Pixels:
        if self.whole is None:
            return self.canvas
        if strength in ("auto", 1):
            return self.whole
        base: Pixels = self.canvas.copy()
        for row, before, after in zip(base, self.canvas, self.whole, strict=True):
            row[:] = np.rint(before + np.float32(strength) * (after.astype(np.float32) - before))
        return base

    def is_outside_untouched(self, pixels: Pixels) -> bool:
        """Whether `pixels` equals the canvas bit by bit wherever no face was blended in."""
        is_inside = np.zeros(self.canvas.shape[:2], dtype=np.bool_)
        for patch in self.patches.values():
            is_inside[patch.y0 : patch.y1, patch.x0 : patch.x1] |= patch.weights > 0
        # Row by row, so that no second copy of a large photo is made. Most rows have no face and are equal throughout.
        return all(
            np.array_equal(row, before) or bool((inside | (row == before).all(axis=-1)).all())
            for inside, row, before in zip(is_inside, pixels, self.canvas, strict=True)
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RestoreResult:
    """A restored photo and the truth about it."""

    original: Photo
    photo: Photo
    """The result, exactly `scale` times the original's size."""
    faces: tuple[RestoredFace, ...]
    """Every face found, from left to right."""
    shown: tuple[int, ...]
    """Indices of the restored faces that are in `photo`."""
    options: RestoreOptions
    """As they were asked for; `strength` below is what `photo` shows."""
    strength: Strength
    upscaler: str | None
    """What enlarged the background; None where it was only resampled."""
    background_tiles: Tiles | None
    """Of the upscaler, in photo pixels; None where it saw the photo whole, or did not run."""
    whole_tiles: Tiles | None
    """Of mode whole, in result pixels; None in mode faces."""
    template: str
    """Alignment of the crops."""
    task: str
    """What the model was used for; see `gpen_core.tasks`."""
    task_done: str
    """What became of a face, for people: `restored`."""
    model: str
    detector: str
    device: str
    precision: str
    compiled: bool
    tile_px: int
    """Size of the tiles that the network's large levels ran in; 0 where they ran whole."""
    overlap_px: int
    search_tile_px: int
    """Size of the tiles that faces were searched in; 0 where the photo was searched whole."""
    num_search_tiles: int
    notes: tuple[str, ...]
    """What fell back, was skipped or failed, in sentences for people."""
    timings: Mapping[str, float]
    """Seconds by stage."""
    composition: Composition

    @property
    def scale(self) -> float:
        return self.options.scale

    @property
    def mask(self) -> str:
        """Where the restored faces count: `soft` or `parsing`."""
        return self.options.mask

    @property
    def before(self) -> Photo:
        """The photo, resampled to the result's size, to compare with."""
        pixels = self.composition.canvas if self.upscaler is None else make_canvas(self.original.pixels, self.scale)
        return replace(self.photo, pixels=pixels)

    @property
    def restored_faces(self) -> tuple[RestoredFace, ...]:
        """The faces that the network restored, shown or not."""
        return tuple(face for face in self.faces if face.decision == "restored")

    @property
    def num_shown(self) -> int:
        return len(self.shown)

    @property
    def has_ai(self) -> bool:
        """A network repainted a part of the photo."""
        has_network = bool(self.shown) or self.whole_tiles is not None
        return (has_network and self.strength != 0) or self.upscaler is not None

    @property
    def seconds(self) -> float:
        return sum(self.timings.values())

    def recompose(self, *, strength: Strength | None = None, faces: Iterable[int] | None = None) -> RestoreResult:
        """The same restoration at another strength or with other faces shown. Runs no network.

        Args:
            strength: 0 to 1, or `auto`; None keeps it.
            faces: indices of restored faces to show; None keeps them.

        Raises:
            OptionError: strength out of range, or a face that was not restored.
        """
        strength = self.strength if strength is None else strength
        allowed(RestoreOptions, "strength").check("strength", strength)
        shown = self.shown if faces is None else tuple(sorted(set(faces)))
        unknown = [index for index in shown if index not in self.composition.patches]
        if unknown:
            restored = ", ".join(map(str, self.composition.patches)) or "none"
            raise OptionError(f"Face {unknown[0]} was not restored; choose among: {restored}.")
        pixels = self.composition.blend(strength, shown)
        return replace(self, photo=replace(self.photo, pixels=pixels), shown=shown, strength=strength)

    def save(self, path: str | Path, output: OutputOptions | None = None) -> tuple[str, ...]:
        """Write the photo; see `gpen_core.photo.write.write_photo`."""
        return write_photo(self.photo, path, output, has_ai=self.has_ai)

    def summary(self) -> str:
        """One line for people: what was restored, with what."""
        num_found = len(self.faces)
        if self.whole_tiles is not None:
            faces = f", and {self.num_shown} of {num_found} faces" if self.options.mode == "both" else ""
            what = f"whole picture {self.task_done} in {self.whole_tiles.num_tiles} tiles{faces}"
        elif num_found == 0:
            what = f"no face found, photo {self.fate_of_the_rest}"
        else:
            what = f"{self.num_shown} of {num_found} face{'s' if num_found != 1 else ''} {self.task_done}"
        size = f"{self.photo.width} x {self.photo.height} px"
        ran = f"{self.model}, {self.device}, {self.precision}{', compiled' if self.compiled else ''}"
        return f"{what} · {size} · {ran} · strength {self._strength_words()} · {self.seconds:.1f} s"

    @property
    def fate_of_the_rest(self) -> str:
        """What became of all that is no face, for people."""
        if self.upscaler is not None:
            return f"enlarged by {self.upscaler}"
        return "unchanged" if self.scale == 1 else "only resampled"

    def _strength_words(self) -> str:
        if self.strength != "auto":
            return f"{self.strength:g}"
        used = [self.composition.strength_of(index, "auto") for index in self.shown]
        return f"auto ({min(used):.2f} to {max(used):.2f})" if used else "auto"

    def to_report(self) -> dict[str, Any]:
        """Everything above but the pixels, ready for JSON."""
        return {
            "faces_found": len(self.faces),
            "faces_restored": self.num_shown,
            "faces": [self._face_report(face) for face in self.faces],
            "task": self.task,
            "model": self.model,
            "detector": self.detector,
            "device": self.device,
            "precision": self.precision,
            "compiled": self.compiled,
            "mode": self.options.mode,
            "strength": self.strength,
            "scale": self.scale,
            "background": {
                "upscaler": self.upscaler,
                "strength": self.options.background_strength if self.upscaler else None,
                "tile": self.background_tiles and self.background_tiles._asdict(),
            },
            "whole_tile": self.whole_tiles and self.whole_tiles._asdict(),
            "mask": self.options.mask,
            "input_size": [self.original.width, self.original.height],
            "size": [self.photo.width, self.photo.height],
            "tile": {"tile_px": self.tile_px, "overlap_px": self.overlap_px} if self.tile_px else None,
            "search_tile": {"tile_px": self.search_tile_px, "num_tiles": self.num_search_tiles}
            if self.num_search_tiles
            else None,
            "outside_faces_unchanged": self.whole_tiles is None
            and self.composition.is_outside_untouched(self.photo.pixels),
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
            "timings": {stage: round(seconds, 3) for stage, seconds in self.timings.items()},
        }

    def _face_report(self, face: RestoredFace) -> dict[str, Any]:
        is_switched_off = face.decision == "restored" and face.index not in self.shown
        return {
            "index": face.index,
            "box": [round(value, 1) for value in face.face.box],
            "score": round(face.face.score, 4),
            "decision": "skipped" if is_switched_off else face.decision,
            "reason": "switched off" if is_switched_off else face.reason,
            "strength": self.composition.strength_of(face.index, self.strength) if face.index in self.shown else None,
            "precision": face.precision,
            "quality": face.quality,
            "identity_distance": face.identity_distance,
            "condition": face.condition
            and {
                "noise": round(face.condition.noise, 2),
                "sharpness": round(face.condition.sharpness, 3),
                "change": round(face.condition.change, 2),
            },
        }
