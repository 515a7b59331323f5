from __future__ import annotations

import shutil

import pytest

from gpen_core.errors import OptionError, WeightsError
from gpen_core.models import weights
from gpen_core.models.registry import SPECS, STARTER, get_spec
from gpen_core.models.weights import candidate_path, hash_file, resolve_model
from gpen_core.options import DETECTORS, MODELS


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("GPEN_WEIGHTS_DIR", str(tmp_path))
    return tmp_path


def test_every_model_a_person_can_choose_is_a_generator_of_the_registry():
    generators = {name for name, spec in SPECS.items() if spec.role == "generator"}
    assert set(MODELS) - {"auto"} == generators


def test_every_detector_a_person_can_choose_is_one_of_the_registry():
    detectors = {name for name, spec in SPECS.items() if spec.role == "detector"}
    assert set(DETECTORS) - {"auto"} == detectors


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(OptionError, match="gpen-bfr-512"):
        get_spec("gpen-512")


def test_the_embedded_starter_is_what_the_registry_says():
    path = candidate_path(STARTER)
    assert path.stat().st_size == STARTER.num_bytes
    assert hash_file(path) == STARTER.sha256


def test_auto_takes_the_starter_where_nothing_else_is_present(folder):
    file = resolve_model("auto")
    assert file.spec is STARTER
    assert file.is_verified


def test_auto_prefers_an_official_file(folder, monkeypatch):
    (folder / "GPEN-BFR-1024.pth").write_bytes(b"x")
    file = resolve_model("auto")
    assert file.spec.name == "gpen-bfr-1024"
    assert not file.is_verified


def test_a_missing_official_file_says_where_to_put_it(folder):
    with pytest.raises(WeightsError) as caught:
        resolve_model("gpen-bfr-512")
    for expected in ("GPEN-BFR-512.pth", str(folder), "f1002c41add9", "starter-256"):
        assert expected in str(caught.value)


def test_a_file_with_the_right_name_and_the_wrong_hash_is_refused(folder):
    (folder / "GPEN-BFR-512.pth").write_bytes(b"not these weights")
    with pytest.raises(WeightsError, match="sha256"):
        resolve_model("gpen-bfr-512")


def test_a_file_of_ones_own_is_known_by_its_hash_whatever_its_name(folder):
    copy = folder / "holiday.safetensors"
    shutil.copy(candidate_path(STARTER), copy)
    file = resolve_model("auto", copy)
    assert file.spec is STARTER
    assert file.path == copy
    assert file.is_verified


def test_an_unknown_file_of_ones_own_is_unverified(folder):
    own = folder / "mine.pth"
    own.write_bytes(b"anything")
    file = resolve_model("auto", own)
    assert file.spec.name == "mine"
    assert not file.is_verified
    with pytest.raises(WeightsError, match="no weights file"):
        resolve_model("auto", folder / "absent.pth")


def test_the_folder_is_the_users_cache_unless_named(monkeypatch, tmp_path):
    monkeypatch.delenv("GPEN_WEIGHTS_DIR")
    monkeypatch.setattr(weights.Path, "home", lambda: tmp_path)
    assert weights.weights_folder() == tmp_path / ".cache" / "gpen_core"
