"""The named degradations, which now live in `gpen_core.evaluation.degrade`."""

from gpen_core.evaluation.degrade import AGED_BLACK, AGED_WHITE, LEVELS, DegradationLevel, degrade, truth_for

__all__ = ["AGED_BLACK", "AGED_WHITE", "LEVELS", "DegradationLevel", "degrade", "truth_for"]
