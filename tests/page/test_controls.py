"""Controls say what the options say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import app
from gpen_core.options import RuntimeOptions, allowed, default
from page import controls as page_controls
from page.site import Site
from page.values import AUTOMATIC, NAMES, owner_of
from tests.page.conftest import MODEL


def build(site: Site) -> dict[str, dict[str, Any]]:
    config = app.build_page(site).get_config_file()
    return {part["props"].get("elem_id"): part["props"] for part in config["components"]}


def nobody(model, report, **asked):
    pytest.fail("building the page asked for a restorer")


def test_every_control_comes_from_its_option() -> None:
    site = Site(nobody)
    controls = build(site)
    for name in NAMES:
        if name in ("model", AUTOMATIC):
            continue
        limits, control = allowed(owner_of(name), name), controls[name]
        if limits.minimum is not None:
            assert (control["minimum"], control["maximum"]) == (limits.minimum, limits.maximum), name
            assert limits.step is None or control["step"] == limits.step
        elif control.get("choices"):
            assert {value for _, value in control["choices"]} <= {*(limits.choices or ()), "all", "largest", "center"}
        value = default(owner_of(name), name)
        assert (control.get("value") or 0) == (0 if name in ("tile_px", "overlap_px") else value), name
        told = site.labels["en"][control["info"].key].lower()
        assert page_controls.help_of(name).lower().rstrip(".") in told
        assert limits.help.split(";")[0].lower() in told


def test_models_say_what_is_here_and_what_would_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPEN_CACHE", str(tmp_path))
    (tmp_path / "GPEN-BFR-1024.pth").write_text("read when it is used")
    (tmp_path / "GPEN-BFR-512.pth").write_text("not 284 MB")
    site = Site(nobody)
    model = build(site)["model"]
    assert [value for _, value in model["choices"]] == [MODEL, "gpen-bfr-1024"]
    assert model["value"] == "gpen-bfr-1024"
    assert "gpen-bfr-512" in site.labels["en"][model["info"].key]
    texts = list(site.labels["en"].values())
    about = next(text for text in texts if "**Models.**" in text)
    assert str(tmp_path) not in about and "GPEN-BFR-512.pth" in about and "CC0" in about and "non-commercial" in about
    assert any("no licence file" in text for text in texts)

    monkeypatch.delenv("GPEN_OFFLINE")
    site = Site(nobody)
    labels = [site.labels["en"][label.key] for label, _ in build(site)["model"]["choices"]]
    assert labels[0] == f"{MODEL} · ready" and "gpen-bfr-512 · to be fetched, 284 MB" in labels


def test_fp16_is_off_and_explained_where_it_gains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(nobody, RuntimeOptions(device="cpu"))
    half = build(site)["fp16"]
    assert (half["value"], half["interactive"]) == (False, False)
    assert site.labels["en"][half["info"].key] == "Off: FP16 brings nothing on a CPU."
    monkeypatch.setattr(page_controls, "why_no_half", lambda runtime: "")
    half = build(Site(nobody, RuntimeOptions(precision="fp16")))["fp16"]
    assert (half["value"], half["interactive"]) == (True, True)


def test_settings_of_the_server_are_those_a_visitor_begins_with() -> None:
    controls = build(Site(nobody, RuntimeOptions(device="cpu", precision="bf16", compile=True)))
    assert (controls["precision"]["value"], controls["compile"]["value"]) == ("bf16", True)
