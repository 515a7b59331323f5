"""What all tabs share."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpen_core.errors import PhotoError
from gpen_core.types import Progress
from page.site import read_upload, status_html, step_words


def test_texts_are_escaped() -> None:
    assert status_html("<b>", ["<script>"]) == "<p>&lt;b&gt;</p><ul><li>&lt;script&gt;</li></ul>"


def test_only_uploads_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(uploads))
    (uploads / "photo.jpg").write_bytes(b"uploaded")
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    assert read_upload({"path": str(uploads / "photo.jpg")}) == ("photo.jpg", b"uploaded")
    for path in (uploads / "gone.jpg", uploads, uploads / ".." / "secret.jpg", tmp_path / "secret.jpg", "photo.jpg"):
        with pytest.raises(PhotoError, match="not on the server, or no longer; add it again"):
            read_upload({"path": str(path)})


def test_compiling_is_shown_in_words():
    words = "compiling for 512 px, first time only"
    assert step_words(Progress("compile", 0, 1, words), "en") == (0.3, words.capitalize())
    share, sentence = step_words(Progress("restore", 1, 2), "en")
    assert (round(share, 2), sentence) == (0.6, "Restoring faces (1 of 2)")
