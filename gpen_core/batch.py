"""Many photos: find them, restore one after another, say what became of each. Originals are never overwritten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from gpen_core.errors import Cancelled, GpenError, PhotoError
from gpen_core.options import OutputOptions, RestoreOptions
from gpen_core.photo.io import (
    READABLE_SUFFIXES,
    check_writable_format,
    is_own_result,
    suffix_for,
    write_photo,
)
from gpen_core.restorer import Restorer
from gpen_core.result import RestoreResult
from gpen_core.types import OnProgress, Photo

OUTPUT_PREFIX = "output_"
Status: TypeAlias = Literal["restored", "no faces", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PhotoOutcome:
    """What became of one file."""

    source: Path
    output: Path | None
    """The file written; None where it failed."""
    status: Status
    notes: tuple[str, ...] = ()
    error: str = ""
    """Why it failed, in a sentence for people."""
    result: RestoreResult | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderListing:
    """The photos of a folder and how many other files lie between them."""

    photos: tuple[Path, ...]
    """Sorted by name."""
    num_ignored: int


def list_photos(folder: Path) -> FolderListing:
    """The photos directly in `folder`, by their ending in any case; hidden files and macOS `._` files are not photos.

    Raises:
        PhotoError: the folder cannot be read or holds no photo.
    """
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise PhotoError(f"The folder {folder} could not be read: {error.strerror}.") from error
    photos = tuple(path for path in files if path.suffix.lower() in READABLE_SUFFIXES and not path.name.startswith("."))
    if not photos:
        raise PhotoError(f"The folder {folder} holds no photo ({len(files)} other files); name a folder with photos.")
    return FolderListing(photos=photos, num_ignored=len(files) - len(photos))


def output_name(source: Path) -> str:
    """`output_<name>` for a single photo; the ending becomes `.png` where the format cannot be written."""
    return OUTPUT_PREFIX + source.stem + suffix_for(source)


def check_output(path: Path, sources: Sequence[Path]) -> None:
    """Raise where writing `path` would lose something or cannot work.

    Raises:
        PhotoError: unknown ending, no such folder, one of the originals, or a file that this program did not write.
    """
    check_writable_format(path)
    if not path.parent.is_dir():
        raise PhotoError(f"There is no folder {path.parent} to write {path.name} into; make it first.")
    if not path.exists():
        return
    if path.is_dir():
        raise PhotoError(f"{path} is a folder; choose a file name.")
    if any(source.exists() and path.samefile(source) for source in sources):
        raise PhotoError(f"{path} is the original, which is never overwritten; choose another output.")
    if not is_own_result(path):
        raise PhotoError(f"{path} exists and was not written by this program; choose another output or move it away.")


def restore_file(
    restorer: Restorer,
    source: Path,
    output: Path,
    options: RestoreOptions,
    *,
    written: OutputOptions | None = None,
    crops_folder: Path | None = None,
    on_progress: OnProgress | None = None,
) -> PhotoOutcome:
    """Restore one file into another.

    Args:
        restorer: holds the networks.
        source: the photo.
        output: where the result goes; an earlier result of this program is replaced.
        options: what to do.
        written: how the result is written.
        crops_folder: also write each face before and after, at the model's size, into this folder.
        on_progress: see `Restorer.restore`.

    Raises:
        GpenError: see `Restorer.restore`, `check_output` and `write_photo`.
    """
    check_output(output, [source])
    result = restorer.restore(source, options, on_progress)
    notes = (*result.notes, *result.save(output, written))
    if crops_folder is not None:
        save_crops(result, crops_folder)
    status: Status = "restored" if result.num_shown else "no faces"
    return PhotoOutcome(source=source, output=output, status=status, notes=notes, result=result)


def save_crops(result: RestoreResult, folder: Path) -> None:
    """Write each restored face as `face-<index>-before.png` and `face-<index>-after.png`; without faces, nothing."""
    if not result.restored_faces:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for face in result.restored_faces:
        for moment, pixels in (("before", face.crop.pixels if face.crop else None), ("after", face.restored)):
            if pixels is not None:
                path = folder / f"face-{face.index:02d}-{moment}.png"
                check_output(path, [])
                write_photo(Photo(pixels=pixels), path)


def crops_folder_for(output: Path) -> Path:
    """Folder beside a result for its face crops."""
    return output.with_name(f"{output.name}_faces")


def plan_outputs(photos: Sequence[Path], folder: Path) -> dict[Path, Path]:
    """An output in `folder` for each photo, under its own name.

    Where two photos would get the same name (`a.bmp` and `a.png` both become `a.png`), the later one gets a number.
    """
    outputs: dict[Path, Path] = {}
    taken: set[str] = set()
    for photo in photos:
        suffix = suffix_for(photo)
        name, number = f"{photo.stem}{suffix}", 1
        # Case-folded: on Windows and macOS `A.png` and `a.png` are one file.
        while name.casefold() in taken:
            name, number = f"{photo.stem}-{number}{suffix}", number + 1
        taken.add(name.casefold())
        outputs[photo] = folder / name
    return outputs


def restore_folder(
    restorer: Restorer,
    photos: Sequence[Path],
    output_folder: Path,
    options: RestoreOptions,
    *,
    written: OutputOptions | None = None,
    is_saving_crops: bool = False,
    on_progress: OnProgress | None = None,
) -> Iterator[PhotoOutcome]:
    """Restore photos one after another into a folder, which is made if need be.

    Yields one outcome a photo, in order. A photo that fails is an outcome; it does not stop the others. `on_progress`
    hears each photo's own stages, see `Restorer.restore`.

    Raises:
        PhotoError: the output folder is the folder of the photos, or cannot be made.
    """
    if any(photo.parent.resolve() == output_folder.resolve() for photo in photos):
        raise PhotoError(f"{output_folder} holds the originals, which are never overwritten; choose another output.")
    try:
        output_folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PhotoError(f"The folder {output_folder} could not be made: {error.strerror}.") from error
    for photo, output in plan_outputs(photos, output_folder).items():
        crops_folder = crops_folder_for(output) if is_saving_crops else None
        try:
            yield restore_file(
                restorer,
                photo,
                output,
                options,
                written=written,
                crops_folder=crops_folder,
                on_progress=on_progress,
            )
        except Cancelled:
            raise
        except (GpenError, RuntimeError, ValueError, MemoryError, OSError) as error:
            # torch, OpenCV and Pillow raise these for what one picture does to them; the next one may be well.
            message = str(error) if isinstance(error, GpenError) else f"{type(error).__name__}: {error}"
            yield PhotoOutcome(source=photo, output=None, status="failed", error=message)
