"""Errors a person may see. Each message is one sentence: what happened, the value, what is allowed, what to do."""

from __future__ import annotations


class GpenError(Exception):
    """Base of everything this package raises on purpose."""


class OptionError(GpenError, ValueError):
    """An option's value is outside what is allowed."""


class PhotoError(GpenError):
    """A photo cannot be read or written."""


class WeightsError(GpenError):
    """A weights file is missing, damaged or of another network."""


class DeviceError(GpenError):
    """The machine cannot do what was asked: device absent, memory too small."""


class Cancelled(GpenError):  # noqa: N818 - not a fault, but the caller's own wish
    """Raised inside `on_progress` to stop a restoration."""


FAILURES = (GpenError, RuntimeError, ValueError, MemoryError, OSError)
"""torch, OpenCV and Pillow raise these for what one picture does to them; the next one may be well."""


def describe_failure(error: BaseException) -> str:
    """What happened, for people. torch, OpenCV and Pillow name it, but speak to engineers."""
    return str(error) if isinstance(error, GpenError) else f"{type(error).__name__}: {error}"
