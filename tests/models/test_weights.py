"""From a name to a file: names, the order of places, and what is said of files that are not what they should be."""

from __future__ import annotations

import dataclasses
import shutil
import socket
from pathlib import Path

import platformdirs
import pytest
import torch

from gpen_core.cache_dir import cache_folder
from gpen_core.errors import OptionError, WeightsError
from gpen_core.faces.parse import FacexlibParser
from gpen_core.models.checkpoint import load_generator
from gpen_core.models.gpen import Generator
from gpen_core.models.places import ASSETS, places_of
from gpen_core.models.registry import PORTRAIT, SPECS, STARTER, HubFile, ModelSpec, get_spec
from gpen_core.models.verify import Record, hash_file, read_records, write_record
from gpen_core.models.weights import best_present, is_present, load_model, load_weights, resolve_model
from gpen_core.options import DETECTORS, MODELS
from gpen_core.restorer import Restorer

NAME = PORTRAIT.split("/")[1]
TINY = ModelSpec(
    name="tiny-64",
    role="generator",
    file_name="Tiny.pth",
    other_names=("tiny-too.pth",),
    licence="any use",
    summary="A generator of random numbers.",
    hub_files=(HubFile(PORTRAIT, "pytorch_model.pt"),),
    size=64,
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tiny") / "tiny.pth"
    generator = Generator(64, style_dim=16, num_mlp_layers=3, channel_multiplier=1, narrow=1 / 16)
    torch.save(generator.state_dict(), path)
    return path


@pytest.fixture
def folders(monkeypatch, tmp_path) -> dict[str, Path]:
    """The three folders that weights are looked for in."""
    found = {name: tmp_path / name for name in ("GPEN_CACHE", "GPEN_WEIGHTS_DIR", "MODELSCOPE_CACHE")}
    for name, folder in found.items():
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    return found


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.delenv("GPEN_OFFLINE")
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr("subprocess.Popen", refuse)


def put(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    return target


def load(spec: ModelSpec):
    return load_weights(spec, lambda file: load_generator(file.path, expected_size=spec.size))


def known(spec: ModelSpec, path: Path) -> ModelSpec:
    """The spec as if its file's hash were publicly known."""
    return dataclasses.replace(spec, sha256=hash_file(path), num_bytes=path.stat().st_size)


def test_every_choice_of_a_person_is_in_the_registry():
    def named(role):
        return {spec.name for spec in SPECS.values() if spec.role == role}

    assert set(MODELS) - {"auto"} == named("generator")
    assert set(DETECTORS) - {"auto"} == named("detector")
    assert named("parser") == {FacexlibParser.name}


def test_every_address_of_the_registry_comes_with_a_hash():
    for spec in SPECS.values():
        if spec.urls or any(file.is_as_released for file in spec.hub_files):
            assert spec.sha256 and len(spec.sha256) == 64 and spec.num_bytes
        assert not (spec.is_embedded and (spec.urls or spec.hub_files))
    # The 1024 px model is in the second repository only, under the name that the 512 px one has in the first.
    assert [file.repo.endswith("-hires") for file in SPECS["gpen-bfr-1024"].hub_files] == [True]
    assert SPECS["gpen-bfr-1024"].hub_files[0].path == SPECS["gpen-bfr-512"].hub_files[0].path


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(OptionError, match="gpen-bfr-512"):
        get_spec("gpen-512")


def test_the_embedded_starter_is_what_the_registry_says():
    path = ASSETS / STARTER.file_name
    assert path.stat().st_size == STARTER.num_bytes
    assert hash_file(path) == STARTER.sha256


LAYOUTS = {
    "our cache": ("GPEN_CACHE", "Tiny.pth"),
    "our cache, another name": ("GPEN_CACHE", "tiny-too.pth"),
    "a folder of the user": ("GPEN_WEIGHTS_DIR", "Tiny.pth"),
    "a copy of the repository": ("GPEN_WEIGHTS_DIR", f"{NAME}/pytorch_model.pt"),
    "modelscope 1.38": ("MODELSCOPE_CACHE", f"models/iic--{NAME}/snapshots/master/pytorch_model.pt"),
    "modelscope 1.38, a revision": ("MODELSCOPE_CACHE", f"models/iic--{NAME}/snapshots/v1.0.0/pytorch_model.pt"),
    "modelscope, models": ("MODELSCOPE_CACHE", f"models/iic/{NAME}/pytorch_model.pt"),
    "modelscope, hub models": ("MODELSCOPE_CACHE", f"hub/models/iic/{NAME}/pytorch_model.pt"),
    "modelscope, hub": ("MODELSCOPE_CACHE", f"hub/iic/{NAME}/pytorch_model.pt"),
    "modelscope, flat": ("MODELSCOPE_CACHE", f"iic/{NAME}/pytorch_model.pt"),
    "modelscope, the first owner": ("MODELSCOPE_CACHE", f"hub/damo/{NAME}/pytorch_model.pt"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_is_found_in_every_layout_without_a_socket(folders, tiny, no_network, layout):
    folder, name = LAYOUTS[layout]
    path = put(tiny, folders[folder] / name)
    file, generator = load(TINY)
    assert file.path == path
    assert generator.size == 64
    assert not file.is_verified
    assert "unverified" in file.notes[0]


def test_a_named_folder_may_be_the_repository_itself(folders, tiny, monkeypatch):
    path = put(tiny, folders["GPEN_WEIGHTS_DIR"] / NAME / "pytorch_model.pt")
    monkeypatch.setenv("GPEN_WEIGHTS_DIR", str(path.parent))
    assert load(TINY)[0].path == path


def test_the_nearer_place_is_preferred(folders, tiny):
    paths = [put(tiny, folders[folder] / name) for folder, name in LAYOUTS.values()]
    first = ("GPEN_CACHE", "GPEN_WEIGHTS_DIR", "MODELSCOPE_CACHE")
    for name in first:
        assert load(TINY)[0].path.is_relative_to(folders[name])
        for path in paths:
            if path.is_relative_to(folders[name]):
                path.unlink()


def test_a_file_that_does_not_fit_is_passed_over_by_name(folders, tiny):
    wrong = folders["GPEN_WEIGHTS_DIR"] / "Tiny.pth"
    torch.save({"weight": torch.zeros(3)}, wrong)
    right = put(tiny, folders["MODELSCOPE_CACHE"] / "iic" / NAME / "pytorch_model.pt")
    file, _ = load(TINY)
    assert file.path == right
    assert str(wrong) in file.notes[0] and "not a GPEN generator" in file.notes[0]


def test_shapes_decide_what_size_a_file_is(folders, tiny):
    put(tiny, folders["GPEN_WEIGHTS_DIR"] / "Tiny.pth")
    with pytest.raises(WeightsError, match=r"64 px.*128 px"):
        load(dataclasses.replace(TINY, size=128))


@pytest.mark.parametrize("damage", ["half", "zeroed tail", "empty", "other bytes"])
def test_a_broken_file_of_known_hash_is_named_and_set_aside_in_our_cache(folders, tiny, damage):
    content = tiny.read_bytes()
    path = folders["GPEN_CACHE"] / "Tiny.pth"
    path.write_bytes(
        {
            "half": content[: len(content) // 2],
            "zeroed tail": content[:-4096] + bytes(4096),
            "empty": b"",
            "other bytes": content[::-1],
        }[damage]
    )
    with pytest.raises(WeightsError) as caught:
        load(known(TINY, tiny))
    for words in (str(path), "damaged", "set aside as Tiny.pth.broken", "python -m gpen_core download tiny-64"):
        assert words in str(caught.value)
    assert [entry.name for entry in folders["GPEN_CACHE"].iterdir()] == ["Tiny.pth.broken"]


def test_a_broken_file_elsewhere_is_named_and_left_where_it_is(folders, tiny):
    path = folders["GPEN_WEIGHTS_DIR"] / "Tiny.pth"
    path.write_bytes(b"x" * tiny.stat().st_size)
    with pytest.raises(WeightsError, match="sha256"):
        load(known(TINY, tiny))
    assert path.is_file()
    put(tiny, folders["MODELSCOPE_CACHE"] / "iic" / NAME / "pytorch_model.pt")
    file, _ = load(known(TINY, tiny))
    assert file.is_verified
    assert str(path) in file.notes[0]


def test_a_record_vouches_for_a_file_and_only_for_that_one(folders, tiny):
    cache = folders["GPEN_CACHE"]
    put(tiny, cache / "Tiny.pth")
    record = Record(file="Tiny.pth", sha256=hash_file(tiny), bytes=tiny.stat().st_size, source="hub", date="today")
    write_record(cache, "Tiny.pth", record)
    assert read_records(cache) == {"Tiny.pth": record}
    assert load(TINY)[0].is_verified
    # Also where the public hash is that of another file of the same model.
    assert load(dataclasses.replace(TINY, sha256="0" * 64, num_bytes=1))[0].is_verified
    content = bytearray(tiny.read_bytes())
    content[len(content) // 2] ^= 1
    (cache / "Tiny.pth").write_bytes(content)
    with pytest.raises(WeightsError, match="damaged"):
        load(TINY)


def test_a_damaged_record_vouches_for_nothing(folders, tiny):
    put(tiny, folders["GPEN_CACHE"] / "Tiny.pth")
    (folders["GPEN_CACHE"] / "weights.lock.json").write_text('{"weights": [{"file": "Tiny.pth"')
    assert not load(TINY)[0].is_verified


def test_a_missing_file_says_what_it_is_and_where_to_put_it(folders):
    with pytest.raises(WeightsError) as caught:
        resolve_model("gpen-bfr-512")
    for words in (
        "GPEN-BFR-512.pth",
        "f1002c41add9",
        "284 MB",
        str(folders["GPEN_CACHE"]),
        str(folders["GPEN_WEIGHTS_DIR"]),
        "python -m gpen_core download gpen-bfr-512",
        "GPEN_OFFLINE",
        "starter-256",
    ):
        assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_auto_takes_the_starter_and_says_why_without_a_socket(folders, no_network):
    file = resolve_model("auto")
    assert file.spec is STARTER
    assert file.is_verified
    (why,) = file.notes
    assert "no official GPEN weights are on this machine" in why and "download gpen-bfr-512" in why


def test_auto_says_which_file_it_could_not_use(folders, no_network):
    path = folders["GPEN_WEIGHTS_DIR"] / "GPEN-BFR-512.pth"
    path.write_bytes(b"not these weights")
    file = resolve_model("auto")
    assert file.spec is STARTER
    assert str(path) in file.notes[0]
    assert "starter-256 was used, because no official GPEN weights here fit" in file.notes[1]


def test_auto_prefers_an_official_file(folders, monkeypatch, tiny):
    monkeypatch.setitem(SPECS, "gpen-bfr-1024", dataclasses.replace(TINY, name="gpen-bfr-1024"))
    put(tiny, folders["GPEN_WEIGHTS_DIR"] / "Tiny.pth")
    file, generator = load_model("auto", None, lambda file: load_generator(file.path, file.spec.size))
    assert (file.spec.name, generator.size) == ("gpen-bfr-1024", 64)
    assert best_present().name == "gpen-bfr-1024"


def test_presence_reads_no_file_but_knows_sizes(folders, tiny):
    path = folders["GPEN_WEIGHTS_DIR"] / "GPEN-BFR-512.pth"
    path.write_bytes(b"x")
    assert not is_present(get_spec("gpen-bfr-512"))
    assert best_present() is STARTER
    cached = folders["GPEN_CACHE"] / "GPEN-BFR-512.pth"
    cached.write_bytes(b"xyz")
    assert not is_present(get_spec("gpen-bfr-512"))
    write_record(cached.parent, cached.name, Record(file=cached.name, sha256="0", bytes=3, source="hub", date="today"))
    assert is_present(get_spec("gpen-bfr-512"))
    (folders["GPEN_WEIGHTS_DIR"] / "GPEN-BFR-1024.pth").write_bytes(b"x")
    assert is_present(get_spec("gpen-bfr-1024"))


def test_a_file_of_ones_own_is_known_by_its_hash_whatever_its_name(tmp_path):
    copy = put(ASSETS / STARTER.file_name, tmp_path / "holiday.safetensors")
    file = resolve_model("auto", copy)
    assert file.spec is STARTER
    assert file.path == copy
    assert file.is_verified
    # Given by hand it is used under another model's name too, unverified; the strict load has the last word.
    assert not resolve_model("gpen-bfr-256", copy).is_verified


def test_an_unknown_file_of_ones_own_is_unverified(tmp_path):
    own = tmp_path / "mine.pth"
    own.write_bytes(b"anything")
    file = resolve_model("auto", own)
    assert file.spec.name == "mine"
    assert not file.is_verified and "unverified" in file.notes[0]
    with pytest.raises(WeightsError, match="no weights file"):
        resolve_model("auto", tmp_path / "absent.pth")


def test_the_cache_is_the_users_own_unless_named(monkeypatch, tmp_path):
    monkeypatch.delenv("GPEN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder().is_relative_to(tmp_path) and cache_folder().name == "gpen_core"


def test_without_a_home_nothing_is_looked_for_in_the_current_folder(monkeypatch):
    monkeypatch.delenv("GPEN_CACHE")
    monkeypatch.delenv("GPEN_WEIGHTS_DIR")
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *args, **kwargs: Path("~/.cache/gpen_core"))
    assert cache_folder() is None
    assert all(not place.is_ours for place in places_of(TINY))
    assert resolve_model("auto").spec is STARTER
    with pytest.raises(WeightsError, match="a folder named in GPEN_CACHE"):
        resolve_model("gpen-bfr-512")


def test_the_result_says_why_the_starter_ran(folders, astronaut):
    result = Restorer().restore(astronaut)
    assert result.model == STARTER.name
    assert any("no official GPEN weights" in note for note in result.to_report()["notes"])
