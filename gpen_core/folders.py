"""Which photos a folder holds, and where each result goes, so that nothing is lost and nothing is read twice."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from gpen_core.errors import PhotoError
from gpen_core.options import BatchOptions
from gpen_core.photo.formats import READABLE_SUFFIXES, SAME, check_writable_format, suffix_for
from gpen_core.photo.metadata import SOFTWARE, is_own_result

OUTPUT_PREFIX = "output_"
MANIFEST_NAME = "manifest.jsonl"
CROPS_ENDING = "_faces"
SHEET_ENDING = "_sheet.jpg"


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderListing:
    """The photos of a folder and how many other files lie between them."""

    photos: tuple[Path, ...]
    """Sorted by name, folder by folder."""
    num_ignored: int


def list_photos(folder: Path, options: BatchOptions | None = None, *, output: Path | None = None) -> FolderListing:
    """The photos in `folder`, by their ending in any case; hidden files and macOS `._` files are not photos.

    Names are taken literally, whatever brackets they have; links to folders are not followed. Folders that hold an
    earlier run's results are not entered.

    Args:
        folder: where to look.
        options: whether to enter folders, and what to leave out.
        output: a folder that is not entered, since the results go there.

    Raises:
        PhotoError: the folder cannot be read or holds no photo.
    """
    options = options or BatchOptions()
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file())
        if options.recursive:
            files += _files_below(folder, output)
    except OSError as error:
        raise PhotoError(f"The folder {folder} could not be read: {error.strerror}.") from error
    photos = [path for path in files if is_photo_name(path.name)]
    if not photos:
        raise PhotoError(f"The folder {folder} holds no photo ({len(files)} other files); name a folder with photos.")
    num_ignored = len(files) - len(photos)
    if options.pattern is not None:
        photos = [path for path in photos if fits_pattern(path.relative_to(folder), options.pattern)]
        if not photos:
            raise PhotoError(f"No photo in {folder} fits the pattern {options.pattern!r}; change it or leave it out.")
    return FolderListing(photos=tuple(photos[: options.limit or None]), num_ignored=num_ignored)


def _files_below(folder: Path, output: Path | None) -> list[Path]:
    passed = None if output is None else output.resolve()
    files: list[Path] = []
    for root, names, found in os.walk(folder):
        here = Path(root)
        names[:] = sorted(name for name in names if not _is_passed_over(here / name, passed))
        if here != folder:
            files += sorted(path for path in (here / name for name in found) if path.is_file())
    return files


def _is_passed_over(folder: Path, output: Path | None) -> bool:
    return folder.name.startswith(".") or folder.resolve() == output or _holds_results(folder)


def _holds_results(folder: Path) -> bool:
    """Whether an earlier run wrote its results there; somebody else's file of that name is not enough."""
    try:
        with (folder / MANIFEST_NAME).open(encoding="utf-8") as lines:
            return lines.readline().startswith(f'{{"program": "{SOFTWARE}')
    except (OSError, UnicodeDecodeError):
        return False


def is_photo_name(name: str) -> bool:
    """Whether a file's name is a photo's, by its ending in any case; hidden files and macOS `._` files are none."""
    return Path(name).suffix.lower() in READABLE_SUFFIXES and not name.startswith(".")


def fits_pattern(path: Path, pattern: str) -> bool:
    """A pattern with a slash is held against the path within the folder, any other against the name."""
    name = path.as_posix() if "/" in pattern else path.name
    return fnmatchcase(name.casefold(), pattern.casefold())


def output_name(source: Path, format_: str = SAME) -> str:
    """`output_<name>` for a single photo; only the last ending is replaced, where the format asks for it."""
    return OUTPUT_PREFIX + source.stem + suffix_for(source, format_)


def crops_folder_for(output: Path) -> Path:
    """Folder beside a result for its face crops."""
    return output.with_name(f"{output.name}{CROPS_ENDING}")


def sheet_for(output: Path) -> Path:
    """File beside a result for its sheet."""
    return output.with_name(f"{output.name}{SHEET_ENDING}")


def plan_outputs(photos: Sequence[Path], root: Path, folder: Path, format_: str = SAME) -> dict[Path, Path]:
    """An output below `folder` for each photo below `root`, at the same place and under its own name.

    A photo whose own name can stay keeps it. Of the others, one whose name is taken (`a.bmp` beside `a.png`) gets its
    ending into its name (`a-bmp.png`), so that the name does not depend on the order of the photos.
    """
    wanted = {photo: photo.relative_to(root).with_name(photo.stem + suffix_for(photo, format_)) for photo in photos}
    own = {photo for photo in photos if wanted[photo].name == photo.name}
    outputs: dict[Path, Path] = {}
    taken: set[str] = set()
    for photo in sorted(photos, key=lambda photo: photo not in own):
        for path in _alternatives(photo, wanted[photo]):
            # Case-folded: on Windows and macOS `A.png` and `a.png` are one file.
            if path.as_posix().casefold() not in taken:
                break
        taken.add(path.as_posix().casefold())
        outputs[photo] = folder / path
    return {photo: outputs[photo] for photo in photos}


def _alternatives(photo: Path, wanted: Path) -> Iterator[Path]:
    yield wanted
    stem = f"{photo.stem}-{photo.suffix[1:].lower()}" if photo.suffix.lower() != wanted.suffix.lower() else photo.stem
    if stem != photo.stem:
        yield wanted.with_name(stem + wanted.suffix)
    number = 1
    while True:
        yield wanted.with_name(f"{stem}-{number}{wanted.suffix}")
        number += 1


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, without folders; of those that are one file on Windows and macOS, all but the first get a number."""
    unique: list[str] = []
    taken: set[str] = set()
    for name in names:
        # Dots and slashes of a stranger's system must not lead anywhere.
        wanted = Path(name.replace("\\", "/").split("/")[-1].lstrip(".") or "photo")
        found = next(path for path in _alternatives(wanted, wanted) if path.name.casefold() not in taken)
        taken.add(found.name.casefold())
        unique.append(found.name)
    return unique


def check_output(path: Path, sources: Sequence[Path], *, overwrite_originals: bool | None = None) -> None:
    """Raise where writing `path` would lose something or cannot work.

    Raises:
        PhotoError: unknown ending, no such folder, one of the originals (unless that was asked for), or a file that
            this program did not write.
    """
    check_writable_format(path)
    if not path.parent.is_dir():
        raise PhotoError(f"There is no folder {path.parent} to write {path.name} into; make it first.")
    if not path.exists():
        return
    if path.is_dir():
        raise PhotoError(f"{path} is a folder; choose a file name.")
    if any(source.exists() and path.samefile(source) for source in sources):
        if overwrite_originals:
            return
        raise PhotoError(
            f"{path} is the original, which is never overwritten unasked; choose another output, or add "
            "--overwrite-originals."
        )
    # Nothing is lost with an empty file, such as a broken copy leaves.
    if path.stat().st_size and not is_own_result(path):
        raise PhotoError(f"{path} exists and was not written by this program; choose another output or move it away.")
