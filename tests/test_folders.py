"""Folders as people have them: everything found that should be, nothing twice, no name lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from gpen_core.errors import PhotoError
from gpen_core.folders import list_photos, plan_outputs
from gpen_core.options import BatchOptions, OutputOptions, RestoreOptions


@pytest.fixture
def tree(tmp_path) -> Path:
    root = tmp_path / "Фото [2024]"
    for name in ("b.JPG", "sub dir/a.png", "sub dir/deep/c.TIFF", ".hidden/x.png", "out/r.png", "empty/notes.txt"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".txt":
            path.write_text("x")
        else:
            Image.new("RGB", (8, 8)).save(path)
    (root / "sub dir" / "loop").symlink_to(root, target_is_directory=True)
    return root


def names(root: Path, output: Path | None = None, **options) -> list[str]:
    listing = list_photos(root, BatchOptions(**options), output=output)
    return [path.relative_to(root).as_posix() for path in listing.photos]


def test_folders_are_entered_only_on_request(tree):
    assert names(tree) == ["b.JPG"]
    expected = ["b.JPG", "out/r.png", "sub dir/a.png", "sub dir/deep/c.TIFF"]
    assert names(tree, recursive=True) == expected
    assert names(tree, tree / "out", recursive=True) == [name for name in expected if not name.startswith("out/")]


def test_earlier_results_are_not_read_but_other_manifests_do_not_matter(tree):
    (tree / "out" / "manifest.jsonl").write_text('{"some": "thing"}\n')
    assert "out/r.png" in names(tree, recursive=True)
    (tree / "out" / "manifest.jsonl").write_text('{"program": "gpen_core 0.1.0", "input": "b.JPG"}\n')
    assert "out/r.png" not in names(tree, recursive=True)


def test_pattern_and_limit(tree):
    assert names(tree, recursive=True, pattern="*.jpg") == ["b.JPG"]
    assert names(tree, recursive=True, pattern="sub dir/*") == ["sub dir/a.png", "sub dir/deep/c.TIFF"]
    assert names(tree, recursive=True, limit=2) == ["b.JPG", "out/r.png"]
    with pytest.raises(PhotoError, match=r"fits the pattern 'x\*'"):
        names(tree, pattern="x*")


def test_results_mirror_the_tree(tree):
    photos = list_photos(tree, BatchOptions(recursive=True)).photos
    outputs = plan_outputs(photos, tree, Path("to"))
    assert outputs[tree / "sub dir" / "deep" / "c.TIFF"] == Path("to/sub dir/deep/c.TIFF")


def test_clashes_lose_nothing_and_do_not_depend_on_the_order():
    photos = [Path("d/a.bmp"), Path("d/a.gif"), Path("d/A.png"), Path("d/a.jpg"), Path("d/a.heic")]
    expected = {"a.bmp": "a-bmp.png", "a.gif": "a-gif.png", "A.png": "A.png", "a.jpg": "a.jpg", "a.heic": "a-heic.jpg"}
    for order in (photos, photos[::-1]):
        outputs = plan_outputs(order, Path("d"), Path("o"))
        assert {photo.name: path.name for photo, path in outputs.items()} == expected
        assert list(outputs) == order
    same = plan_outputs([Path("d/a.png"), Path("d/A.png")], Path("d"), Path("o"))
    assert len({path.name.casefold() for path in same.values()}) == 2
    tricky = plan_outputs([Path("d/a-bmp.png"), Path("d/a.bmp"), Path("d/a.png")], Path("d"), Path("o"))
    assert len(set(tricky.values())) == 3


def test_a_second_recursive_run_reads_the_same_photos(tree):
    from gpen_core.batch import restore_folder
    from gpen_core.restorer import Restorer
    from tests.fakes import FakeCropRestorer, FakeDetector, identity

    restorer = Restorer(detector=FakeDetector(), crop_restorer=FakeCropRestorer(identity))
    (tree / "out" / "r.png").unlink()
    seen = []
    for _ in range(2):
        photos = list_photos(tree, BatchOptions(recursive=True), output=tree / "out").photos
        outcomes = restore_folder(
            restorer, photos, tree / "out", RestoreOptions(), root=tree, written=OutputOptions(format="png")
        )
        seen.append([(o.source, o.output, o.status) for o in outcomes])
    assert seen[0] == seen[1]
    assert (tree / "out" / "sub dir" / "deep" / "c.png").is_file()
