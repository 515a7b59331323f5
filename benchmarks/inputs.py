"""What becomes of every kind of photo, through the core, the command and the page:  python -m benchmarks.inputs

Prints one line a file: what happened, what was expected, whether they agree. Of a folder, `python -m benchmarks.inputs
FOLDER`, it takes the photos there, whose names say what they are as those that it makes itself do.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from gradio.utils import get_upload_folder
from PIL import Image

from benchmarks.photo_kinds import make_photos
from gpen_core.errors import GpenError
from gpen_core.options import default
from gpen_core.photo.io import read_photo
from gpen_core.restorer import Restorer
from page.restore_tab import restoration
from page.site import Site
from page.values import AUTOMATIC, NAMES, owner_of

REFUSED = {
    "zero.jpg": "the file is empty",
    "text.jpg": "not a picture in a known format",
    "notes.txt": "not a picture in a known format",
    "._rgb.jpg": "not a picture in a known format",
    "heic_head.jpg": "damaged HEIC",
    "half.jpg": "of the picture is missing",
    "huge.png": "megapixels",
}
NUM_FACES = {"noise.png": 0, "crowd48.png": 48}
NOTES = {"anim.gif": "4 frames", "anim.webp": "4 frames", "no_tail.jpg": "ends too early"}
TURNED_SIZE = (512, 384)


def expected_of(path: Path) -> str:
    """In words: a sentence to be refused with, or the size, the faces, and a note."""
    if path.name in REFUSED:
        return f"refused: {REFUSED[path.name]}"
    if path.name.startswith("exif"):
        size = TURNED_SIZE
    else:
        with Image.open(path) as image:
            size = image.size
    faces = NUM_FACES.get(path.name, 0 if path.name.startswith("size_") and min(size) < 60 else 1)
    if path.name == "size_101x101.png":
        faces = 1
    note = f", {NOTES[path.name]}" if path.name in NOTES else ""
    return f"{size[0]} x {size[1]}, {faces} faces{note}"


def through_core(restorer: Restorer, path: Path) -> str:
    try:
        result = restorer.restore(path)
    except GpenError as error:
        reason = REFUSED.get(path.name, "")
        return f"refused: {reason if reason and reason in str(error) else error}"
    note = NOTES.get(path.name, "")
    found = f", {note}" if note and any(note in entry for entry in result.notes) else ""
    return f"{result.photo.width} x {result.photo.height}, {len(result.faces)} faces{found}"


def through_command(path: Path, folder: Path) -> str:
    """Whether the command gave status 0 and an upright file of the size, or 1 and one sentence."""
    from gpen_core import cli

    out, err = io.StringIO(), io.StringIO()
    status: Any = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main(["-i", str(path), "-o", str(folder)])
        except SystemExit as done:
            status = done.code
    if status == 0:
        (written,) = folder.glob(f"output_{path.stem}.*")
        photo = read_photo(written)
        written.unlink()
        return f"{photo.width} x {photo.height}"
    sentence = err.getvalue().strip().splitlines()[-1]
    reason = REFUSED.get(path.name, "")
    return f"refused: {reason}" if status == 1 and reason and reason in sentence else f"status {status}: {sentence}"


def through_page(restorer: Restorer, path: Path, folder: Path) -> str:
    """What the page makes of it; the upload is where Gradio would have put it."""
    uploads = Path(get_upload_folder()) / "gpen-inputs"
    uploads.mkdir(parents=True, exist_ok=True)
    upload = uploads / path.name
    upload.write_bytes(path.read_bytes())
    site = Site(lambda model, report, **asked: restorer)
    try:
        values = {name: default(owner_of(name), name) for name in NAMES if name != AUTOMATIC}
        values |= {AUTOMATIC: False, "tile_px": 0, "overlap_px": 0, "background": "off"}
        finished = restoration(site, {"path": str(upload)}, values, None)(lambda step: None)
        photo = read_photo(Path(finished.save(str(folder))[0]))
        return f"{photo.width} x {photo.height}"
    except GpenError as error:
        reason = REFUSED.get(path.name, "")
        return f"refused: {reason}" if reason and reason in str(error) else f"refused: {error}"
    finally:
        upload.unlink()


def main() -> int:
    restorer = Restorer()
    num_wrong = 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="photos of these names (default: made for the run)")
    given: Path | None = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as folder:
        photos, results = Path(folder, "photos"), Path(folder, "results")
        results.mkdir()
        if given is None:
            make_photos(photos)
        else:
            shutil.copytree(given, photos)
        print(f"{'file':22} {'ok':3} {'expected':44} core | command | page")
        for path in sorted(path for path in photos.rglob("*") if path.is_file()):
            expected = expected_of(path)
            core = through_core(restorer, path)
            short = expected if expected.startswith("refused") else expected.split(",")[0]
            others = (through_command(path, results), through_page(restorer, path, results))
            is_ok = core == expected and all(other == short for other in others)
            num_wrong += not is_ok
            happened = " | ".join((core, *others))
            print(f"{path.name:22} {'yes' if is_ok else 'NO':3} {expected:44} {happened}", flush=True)
    print(f"{num_wrong} of them wrong")
    return 1 if num_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
