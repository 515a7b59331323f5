"""What restores crops, whatever runs the network, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gpen_core.options import RestoreOptions
from gpen_core.types import OnProgress, Pixels


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RestoredCrops:
    """The generator's answers and what really ran."""

    crops: tuple[Pixels | None, ...]
    """(S, S, 3) RGB each; None where the network gave numbers that are not finite, in fp32 too."""
    precision: str
    compiled: bool
    notes: tuple[str, ...] = ()
    precisions: tuple[str, ...] | None = None
    """Of each crop; None where all have the same."""
    device: str | None = None
    """Where they ran, for people; None where it was the restorer's own device."""
    tile_px: int = 0
    """Of the network's tiles; 0 where it ran untiled."""
    overlap_px: int = 0
    compile_s: float = 0.0


class CropRestorer(Protocol):
    """Restores aligned crops."""

    @property
    def size(self) -> int:
        """Side of a crop in px."""
        ...

    @property
    def template(self) -> str:
        """Alignment the crops need."""
        ...

    @property
    def model_name(self) -> str: ...

    @property
    def strength_coefficients(self) -> Sequence[float] | None:
        """Calibration of the automatic strength, None where there is none."""
        ...

    @property
    def device_name(self) -> str: ...

    def restore_crops(
        self, crops: Sequence[Pixels], on_progress: OnProgress, options: RestoreOptions | None = None
    ) -> RestoredCrops:
        """Restore (size, size, 3) RGB crops.

        Args:
            crops: any number.
            on_progress: hears how many are finished (`restore`) and when code is compiled; may raise to stop.
            options: for tile_px and overlap_px; None takes their defaults.
        """
        ...
