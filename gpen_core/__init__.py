"""gpen_core: find the faces in a photo, restore them with GPEN, put them back.

Importing this package loads no weights, opens no socket and touches no GPU; the names below are imported on first use.

    from gpen_core import Restorer

    result = Restorer().restore("old-photo.jpg")
    result.save("restored.png")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpen_core.version import __version__

if TYPE_CHECKING:
    from gpen_core.batch import PhotoOutcome, restore_folder
    from gpen_core.errors import (
        Cancelled,
        DeviceError,
        GpenError,
        OptionError,
        PhotoError,
        WeightsError,
    )
    from gpen_core.options import BatchOptions, OutputOptions, RestoreOptions, RuntimeOptions
    from gpen_core.photo.io import read_photo
    from gpen_core.photo.write import write_photo
    from gpen_core.restorer import Restorer
    from gpen_core.result import RestoreResult
    from gpen_core.types import Box, DetectedFace, Photo, Progress

_HOMES = {
    "PhotoOutcome": "batch",
    "restore_folder": "batch",
    "Cancelled": "errors",
    "DeviceError": "errors",
    "GpenError": "errors",
    "OptionError": "errors",
    "PhotoError": "errors",
    "WeightsError": "errors",
    "BatchOptions": "options",
    "OutputOptions": "options",
    "RestoreOptions": "options",
    "RuntimeOptions": "options",
    "read_photo": "photo.io",
    "write_photo": "photo.write",
    "Restorer": "restorer",
    "RestoreResult": "result",
    "Box": "types",
    "DetectedFace": "types",
    "Photo": "types",
    "Progress": "types",
}

__all__ = [
    "BatchOptions",
    "Box",
    "Cancelled",
    "DetectedFace",
    "DeviceError",
    "GpenError",
    "OptionError",
    "OutputOptions",
    "Photo",
    "PhotoError",
    "PhotoOutcome",
    "Progress",
    "RestoreOptions",
    "RestoreResult",
    "Restorer",
    "RuntimeOptions",
    "WeightsError",
    "__version__",
    "read_photo",
    "restore_folder",
    "write_photo",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gpen_core' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"gpen_core.{_HOMES[name]}"), name)
