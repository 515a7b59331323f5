"""The endpoint for programs, with the real client and with plain HTTP."""

from __future__ import annotations

import io
import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image

from gpen_core.options import RestoreOptions
from gpen_core.photo.io import read_photo
from tests.page.conftest import ASTRONAUT, MODEL, Served, pixels_of


def test_endpoint_gives_file_and_report(client: Client, served: Served) -> None:
    file, report = client.predict(
        photo=handle_file(ASTRONAUT), strength=0.5, scale=2, format="png", api_name="/restore"
    )
    expected = served.restorer.restore(ASTRONAUT, RestoreOptions(strength=0.5, scale=2))
    np.testing.assert_array_equal(pixels_of(file), expected.photo.pixels)
    assert (report["faces_restored"], report["model"], report["strength"]) == (1, MODEL, 0.5)
    assert report["size"] == [640, 640]
    assert served.own_folders() == []


def test_endpoint_chooses_the_strength_of_each_face(client: Client, served: Served) -> None:
    file, report = client.predict(
        photo=handle_file(ASTRONAUT), automatic_strength=True, format="png", api_name="/restore"
    )
    expected = served.restorer.restore(ASTRONAUT, RestoreOptions(strength="auto"))
    np.testing.assert_array_equal(pixels_of(file), expected.photo.pixels)
    assert report["strength"] == "auto"
    assert 0 < report["faces"][0]["strength"] <= 1


def test_endpoint_restores_whole_pictures(client: Client, served: Served, tmp_path: Path) -> None:
    small = tmp_path / "small.png"
    Image.open(ASTRONAUT).crop((150, 50, 310, 210)).save(small)
    values = {"mode": "whole", "tile_px": 128, "overlap_px": 0, "scale": 1.5}
    file, report = client.predict(photo=handle_file(small), **values, api_name="/restore")
    expected = served.restorer.restore(small, RestoreOptions(mode="whole", tile_px=128, scale=1.5))
    np.testing.assert_array_equal(pixels_of(file), expected.photo.pixels)
    assert report["size"] == [240, 240]
    assert report["whole_tile"] == {"tile_px": 128, "overlap_px": 32, "num_tiles": 9}


SIGNATURE = (
    "photo, model, strength, automatic_strength, mode, scale, background, background_strength, faces, threshold, "
    "min_face_px, mask, sharp_faces, keep_tone, lock_color, grain, accept_damaged, tile_px, overlap_px, precision, "
    "compile, format, strip_metadata, inpaint_mask"
)


def test_endpoints_stay_as_they_are(client: Client) -> None:
    """Programs rely on these names; the layout of the page does not matter to them. New ones go to the end."""
    endpoints = client.view_api(return_format="dict", print_info=False)
    assert endpoints["unnamed_endpoints"] == {}
    assert "/restore" in endpoints["named_endpoints"]
    restore = endpoints["named_endpoints"]["/restore"]
    assert ", ".join(parameter["parameter_name"] for parameter in restore["parameters"]) == SIGNATURE
    assert all(parameter["parameter_has_default"] for parameter in restore["parameters"][1:])
    assert [answer["component"] for answer in restore["returns"]] == ["File", "Json"]
    # In words, and not as the keys of a browser's translation.
    assert restore["parameters"][1]["label"] == "Model"


def test_plain_http_needs_nothing_but_the_photo(served: Served, tmp_path: Path) -> None:
    """As `curl` does it, in the README's three steps."""
    file, report = restore_by_http(served.url, ASTRONAUT)
    assert file["url"].startswith(served.url)
    (tmp_path / "result.jpg").write_bytes(opener().open(file["url"]).read())
    served.restorer.restore(ASTRONAUT).save(tmp_path / "expected.jpg")
    assert (tmp_path / "result.jpg").read_bytes() == (tmp_path / "expected.jpg").read_bytes()
    assert report["faces_restored"] == 1 and report["notes"] == []


def test_notes_and_errors_of_plain_http_are_in_the_callers_language(served: Served, faceless: Path) -> None:
    _, report = restore_by_http(served.url, faceless, format="jpeg", language="zh-CN")
    assert any("No face was found" in note for note in report["notes"])
    with pytest.raises(ValueError, match="请选择 0 至 1 之间的数"):
        restore_by_http(served.url, faceless, strength=1.5, language="zh-CN")


def test_eight_at_once_get_their_own(served: Served, tmp_path: Path) -> None:
    pixels = np.asarray(Image.open(ASTRONAUT))

    def one(number: int) -> None:
        path = tmp_path / f"photo-{number}.png"
        Image.fromarray(np.roll(pixels, 5 * number, axis=1)).save(path)
        expected = served.restorer.restore(path).photo.pixels
        file, _ = restore_by_http(served.url, path)
        assert file["orig_name"] == f"photo-{number}_{MODEL}.png"
        content = opener().open(file["url"]).read()
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(content))), expected)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(8)))


def test_phone_photos_come_out_upright(client: Client, tmp_path: Path) -> None:
    """HEIC, and a JPEG that its EXIF turns; place and camera are left out where that is asked."""
    import pillow_heif

    image = Image.open(ASTRONAUT)
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "A camera"
    image.rotate(90, expand=True).save(tmp_path / "turned.jpg", exif=exif, quality=95)
    pillow_heif.from_pillow(image).save(tmp_path / "phone.heic", quality=95)
    for name, strip in (("turned.jpg", True), ("phone.heic", False)):
        file, report = client.predict(photo=handle_file(tmp_path / name), strip_metadata=strip, api_name="/restore")
        assert report["faces_restored"] == 1
        result = Image.open(file)
        assert result.format == "JPEG" and result.size == image.size
        assert result.getexif().get(0x0112, 1) == 1 and 0x010F not in result.getexif()


def test_over_the_limit_is_refused_before_it_is_decoded(client: Client, tmp_path: Path) -> None:
    Image.new("1", (20000, 6000)).save(tmp_path / "huge.png")
    with pytest.raises(AppError, match="120 megapixels; the limit is 100"):
        client.predict(photo=handle_file(tmp_path / "huge.png"), api_name="/restore")


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "I;16", "CMYK"])
def test_core_receives_the_uploaded_bytes(client: Client, tmp_path: Path, mode: str) -> None:
    """Gradio's own reading would re-encode, flatten or clip all but the first of these."""
    ramp = np.linspace(0, 65535, 64 * 48).reshape(48, 64)
    if mode == "I;16":
        image = Image.fromarray(ramp.astype(np.uint16))
    else:
        bands = [np.roll(ramp // 257, shift, axis=1).astype(np.uint8) for shift in range(len(mode))]
        image = Image.merge(mode, [Image.fromarray(band) for band in bands])
    path = tmp_path / f"ramp.{'tif' if mode == 'CMYK' else 'png'}"
    image.save(path)
    photo = read_photo(path)
    file, report = client.predict(photo=handle_file(path), api_name="/restore")
    assert any("No face was found" in note for note in report["notes"])
    # Not with Pillow, which cuts the lower 8 of 16 bits off where the reader rounds.
    np.testing.assert_array_equal(read_photo(file).pixels, photo.pixels)
    if photo.alpha is not None:
        np.testing.assert_array_equal(np.asarray(Image.open(file).getchannel("A")), photo.alpha)
    assert (photo.alpha is not None) == (mode == "RGBA")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("letter.jpg", b"Dear all", "not a picture in a known format"),
        ("phone.heic", b"\0\0\0\x18ftypheic" + bytes(64), "a damaged HEIC picture, so export it again"),
        ("phone.jpg", b"\0\0\0\x18ftypheic" + bytes(64), "a damaged HEIC picture, so export it again"),
        ("half.jpg", ASTRONAUT.read_bytes()[:4000], "% of the picture is missing"),
        ("empty.png", b"", "the file is empty"),
    ],
    ids=["text", "heic", "heic named jpg", "half a jpeg", "empty"],
)
def test_unreadable_file_gives_one_sentence(
    client: Client, served: Served, tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AppError, match=sentence) as caught:
        client.predict(photo=handle_file(tmp_path / name), api_name="/restore")
    assert "Traceback" not in str(caught.value) and "/" not in str(caught.value)
    assert served.own_folders() == []


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"photo": None}, "Add a photo first"),
        ({"strength": 1.5}, "choose a number from 0 to 1"),
        ({"scale": 5}, "choose a number from 1 to 4"),
        ({"model": "gpen-bfr-2048"}, "put GPEN-BFR-2048.pth"),
        ({"model": "gpen"}, "the nearest names are|choose one of"),
    ],
)
def test_wrong_value_gives_one_sentence(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, values: dict[str, Any], sentence: str
) -> None:
    monkeypatch.setenv("GPEN_WEIGHTS_DIR", str(tmp_path))
    with pytest.raises(AppError, match=sentence):
        client.predict(**{"photo": handle_file(ASTRONAUT), **values}, api_name="/restore")


def test_endpoint_reads_no_file_of_the_server(served: Served) -> None:
    """Gradio passes on any path that comes without its mark of an uploaded file."""
    answer = call(served.url, {"photo": {"path": str(ASTRONAUT)}})
    assert "not on the server, or no longer" in answer
    assert ".png" not in answer and ".jpg" not in answer


def opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def restore_by_http(url: str, photo: Path, *, language: str = "en", **values: Any) -> list[Any]:
    body = f'--x\r\nContent-Disposition: form-data; name="files"; filename="{photo.name}"\r\n\r\n'.encode()
    body += photo.read_bytes() + b"\r\n--x--\r\n"
    upload = urllib.request.Request(
        f"{url}gradio_api/upload", body, {"Content-Type": "multipart/form-data; boundary=x"}
    )
    (path,) = json.load(opener().open(upload))
    answer = call(url, {"photo": {"path": path}, **values}, language)
    event, data = answer.strip().rsplit("event: ", 1)[1].split("\ndata: ")
    if event != "complete":
        raise ValueError(json.loads(data)["error"])
    result: list[Any] = json.loads(data)
    return result


def call(url: str, values: dict[str, Any], language: str = "en") -> str:
    headers = {"Content-Type": "application/json", "Accept-Language": language}
    asked = urllib.request.Request(f"{url}gradio_api/call/v2/restore", json.dumps(values).encode(), headers)
    event = json.load(opener().open(asked))["event_id"]
    return opener().open(f"{url}gradio_api/call/restore/{event}").read().decode()
