"""Where this program keeps what it can fetch or make again."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "GPEN_CACHE"


def cache_folder() -> Path | None:
    """`GPEN_CACHE`, else the user's cache folder, which need not exist; None where the user has neither."""
    named = os.environ.get(CACHE_VARIABLE)
    folder = Path(named).absolute() if named else platformdirs.user_cache_path("gpen_core", appauthor=False)
    # Without a home the user's folder comes as "~/.cache", which would be made in the current folder.
    return folder if folder.is_absolute() else None
