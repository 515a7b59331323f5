"""Restore every photo of a folder: .venv/bin/python examples/restore_folder.py FOLDER OUTPUT."""

import sys
from pathlib import Path

from gpen_core import RestoreOptions, Restorer, restore_folder
from gpen_core.folders import list_photos

folder, output = Path(sys.argv[1]), Path(sys.argv[2])
restorer = Restorer()
for outcome in restore_folder(restorer, list_photos(folder).photos, output, RestoreOptions(min_face_px=32)):
    if outcome.result is None:
        print(f"{outcome.source.name}: {outcome.error}")
    else:
        print(f"{outcome.source.name}: {outcome.result.summary()}")
