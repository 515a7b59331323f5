"""Downloads against a ModelScope on localhost that behaves as real servers do, well and badly.

Every failure ends in one sentence, and never is anything half-written to be taken for a file.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpen_core.errors import Cancelled, WeightsError
from gpen_core.models import watch
from gpen_core.models.registry import SPECS, HubFile, ModelSpec
from gpen_core.models.sources import offers_of
from gpen_core.models.verify import hash_file, read_records
from gpen_core.models.weights import verified_file
from tests.hub_server import Fault, HubServer

ROOT = Path(__file__).parents[2]
REPO = "iic/cv_tiny"
HUB_KEY, MIRROR_KEY = f"{REPO}/deep/weights.pt", "plain/Tiny.pth"
NUM_BYTES = 300_000
TINY = ModelSpec(
    name="tiny",
    role="generator",
    file_name="Tiny.pth",
    licence="any use",
    summary="Bytes.",
    hub_files=(HubFile(REPO, "deep/weights.pt"),),
)


@pytest.fixture
def hub(monkeypatch, tmp_path) -> Iterator[HubServer]:
    """A server with one file, and an empty cache. It is the only thing that the programs under test can reach."""
    content = tmp_path / "served"
    content.write_bytes(random.Random(0).randbytes(NUM_BYTES))
    with HubServer() as server:
        server.files = {HUB_KEY: content, MIRROR_KEY: content}
        monkeypatch.delenv("GPEN_OFFLINE")
        monkeypatch.setenv("GPEN_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", server.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        yield server


@pytest.fixture
def cache(hub, tmp_path) -> Path:
    return tmp_path / "cache"


def served(hub: HubServer) -> Path:
    return hub.files[HUB_KEY]


def as_released(hub: HubServer, spec: ModelSpec = TINY) -> ModelSpec:
    """The spec with its hash publicly known, and with an address of its authors on the server."""
    path = served(hub)
    urls = (f"{hub.url}/{MIRROR_KEY}",)
    return dataclasses.replace(spec, sha256=hash_file(path), num_bytes=path.stat().st_size, urls=urls)


def visible(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def is_whole(cache: Path, hub: HubServer) -> bool:
    """The file is there and complete, recorded, and nothing else is."""
    assert visible(cache) == {"Tiny.pth", "weights.lock.json"}
    assert [path.suffix for path in (cache / ".partial").iterdir()] == [".lock"] * 2
    return (cache / "Tiny.pth").read_bytes() == served(hub).read_bytes()


def test_modelscope_is_asked_once_and_never_again(hub, cache, tmp_path):
    heard = []
    file = verified_file(TINY, heard.append)
    assert file.is_verified and is_whole(cache, hub)
    assert "fetched from ModelScope" in file.notes[0] and "licence: any use" in file.notes[0]
    record = read_records(cache)["Tiny.pth"]
    assert (record.sha256, record.bytes) == (hash_file(served(hub)), NUM_BYTES)
    assert record.source == f"modelscope:{HUB_KEY}"
    assert {step.stage for step in heard} == {"fetch"}
    assert (heard[-1].done, heard[-1].total) == (NUM_BYTES, NUM_BYTES)
    assert "tiny, 0.3 of 0.3 MB" in heard[-1].detail
    assert not (tmp_path / "home").exists()

    asked = list(hub.asked)
    again = verified_file(TINY)
    assert (again.is_verified, again.notes, hub.asked) == (True, (), asked)
    # Bytes damaged on this disk: named, set aside, fetched once more.
    (cache / "Tiny.pth").write_bytes(bytes(NUM_BYTES))
    mended = verified_file(TINY)
    assert mended.is_verified and len(hub.asked) == len(asked) + 1
    assert "set aside as Tiny.pth.broken" in mended.notes[0]
    assert (cache / "Tiny.pth.broken").read_bytes() == bytes(NUM_BYTES)


@pytest.mark.parametrize("source", ["hub", "mirror"])
def test_a_connection_that_is_cut_is_gone_on_with(hub, cache, monkeypatch, source):
    key, spec = HUB_KEY, TINY
    if source == "mirror":
        key, spec = MIRROR_KEY, dataclasses.replace(as_released(hub), hub_files=(), urls=())
        monkeypatch.setenv("GPEN_MIRROR", f"{hub.url}/plain/")
    hub.faults[key] = Fault("cut", after=NUM_BYTES // 2, times=1)
    assert verified_file(spec).is_verified and is_whole(cache, hub)
    first, second = hub.asked
    assert first == f"{key} 0-"
    assert start_of(second) > NUM_BYTES // 3


def start_of(asked: str) -> int:
    return int(asked.split()[1].rstrip("-"))


FETCH = f"""
import sys
from gpen_core.models.registry import HubFile, ModelSpec
from gpen_core.models.weights import verified_file
spec = ModelSpec(name="tiny", role="generator", file_name="Tiny.pth", licence="any use", summary="Bytes.",
                 hub_files=(HubFile({REPO!r}, "deep/weights.pt"),))
print("fetching", flush=True)
file = verified_file(spec)
print(file.is_verified, file.notes)
"""


def start_fetching() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", FETCH], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def wait_for(happened) -> None:
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_killed_at_half_it_goes_on_from_there(hub, cache):
    hub.faults[HUB_KEY] = Fault("stall", after=NUM_BYTES // 2, times=1)
    with start_fetching() as process:
        partial = "deep/weights.pt.incomplete"
        wait_for(lambda: any(path.stat().st_size == NUM_BYTES // 2 for path in cache.rglob(partial)))
        process.send_signal(signal.SIGKILL)
    assert visible(cache) == set()
    assert verified_file(TINY).is_verified and is_whole(cache, hub)
    assert hub.asked == [f"{HUB_KEY} 0-", f"{HUB_KEY} {NUM_BYTES // 2}-"]


def test_two_processes_fetch_once(hub, cache):
    hub.faults[HUB_KEY] = Fault("stall", after=NUM_BYTES // 2, times=1)
    with start_fetching() as first:
        wait_for(lambda: hub.num_bytes_sent[HUB_KEY])
        with start_fetching() as second:
            assert second.stdout.readline() == "fetching\n"
            time.sleep(0.7)
            hub.is_closing.set()
            told = [process.communicate(timeout=60)[0] for process in (first, second)]
    assert all(text.strip().startswith(("True", "fetching\nTrue")) for text in told)
    assert is_whole(cache, hub)
    assert len(hub.asked) == 2 and start_of(hub.asked[1]) == NUM_BYTES // 2


def test_wrong_bytes_are_fetched_once_more(hub, cache):
    hub.faults[HUB_KEY] = Fault("wrong", times=1)
    assert verified_file(TINY).is_verified and is_whole(cache, hub)
    assert len(hub.asked) == 2


def test_a_zeroed_tail_is_fetched_once_more_and_never_kept(hub, cache):
    hub.faults[HUB_KEY] = Fault("zeroed")
    with pytest.raises(WeightsError, match="sent a damaged file") as caught:
        verified_file(TINY)
    check_sentence(str(caught.value))
    assert len(hub.asked) == 2
    assert visible(cache) == set() and not list(cache.rglob("*.pt*"))


def check_sentence(message: str) -> None:
    assert message.startswith("The weights of tiny are not on this machine, and ")
    assert "python -m gpen_core download tiny" in message and "Tiny.pth" in message
    for word in ("\n", "Traceback", "Error", "HTTP", "urllib", "E10"):
        assert word not in message


@pytest.mark.parametrize(
    ("key", "fault", "words"),
    [
        (HUB_KEY, Fault("status", after=404), "has no such file"),
        (HUB_KEY, Fault("html"), "sent another file than the one it lists"),
        (HUB_KEY, Fault("status", after=403), "answered with status 403"),
        (REPO, Fault("status", after=404), "has no such file"),
        (REPO, Fault("status", after=500), "answered with status 500"),
        (REPO, Fault("html"), "answered with something else than its list of files"),
    ],
    ids=["404", "HTML with 200", "403", "no repository", "list fails", "list is HTML"],
)
def test_what_modelscope_may_answer(hub, cache, key, fault, words):
    hub.faults[key] = fault
    with pytest.raises(WeightsError) as caught:
        verified_file(TINY)
    assert f"ModelScope ({REPO}) {words}" in str(caught.value)
    check_sentence(str(caught.value))
    assert visible(cache) == set()


def test_a_file_that_modelscope_does_not_list(hub, cache):
    del hub.files[HUB_KEY]
    with pytest.raises(WeightsError, match=r"has no file deep/weights\.pt in iic/cv_tiny"):
        verified_file(TINY)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault("status", after=404), "has no such file"),
        (Fault("html"), "answered with a web page instead of the file"),
        (Fault("cut", after=0), "broke off|could not be reached"),
        (Fault("wrong"), "sent a damaged file"),
    ],
    ids=["404", "HTML with 200", "cut at once", "wrong bytes"],
)
def test_what_a_mirror_may_answer(hub, cache, monkeypatch, fault, words):
    monkeypatch.setenv("GPEN_MIRROR", f"http://user:secret@{hub.url.removeprefix('http://')}/plain")
    hub.faults[MIRROR_KEY] = fault
    with pytest.raises(WeightsError, match=words) as caught:
        verified_file(dataclasses.replace(as_released(hub), hub_files=(), urls=()))
    check_sentence(str(caught.value))
    assert "secret" not in str(caught.value)
    assert visible(cache) == set()


@pytest.mark.parametrize(("kind", "timeout_s"), [("stall", 2.0), ("drip", 0.5)])
def test_a_stall_ends_and_is_gone_on_with_later(hub, cache, monkeypatch, kind, timeout_s):
    hub.faults[HUB_KEY] = Fault(kind, after=NUM_BYTES // 2)
    with monkeypatch.context() as patch, pytest.raises(WeightsError, match="sent nothing for") as caught:
        patch.setattr(watch, "STALL_TIMEOUT_S", timeout_s)
        verified_file(TINY)
    check_sentence(str(caught.value))
    assert visible(cache) == set()
    if kind == "stall":
        hub.faults.clear()
        assert verified_file(TINY).is_verified and is_whole(cache, hub)
        assert start_of(hub.asked[-1]) == NUM_BYTES // 2


def test_a_server_that_says_nothing_is_not_waited_for(hub, cache, monkeypatch):
    monkeypatch.setattr(watch, "ANSWER_TIMEOUT_S", 0.6)
    hub.faults[REPO] = Fault("stall")
    with pytest.raises(WeightsError, match="did not answer in time"):
        verified_file(TINY)


def test_without_a_network_it_ends_at_once(hub, cache, monkeypatch):
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("GPEN_MIRROR", "http://127.0.0.1:9, http://name.invalid")
    start = time.monotonic()
    with pytest.raises(WeightsError) as caught:
        verified_file(TINY)
    assert time.monotonic() - start < 10
    assert str(caught.value).count("could not be reached") == 3
    check_sentence(str(caught.value))


def test_mirrors_then_the_authors_release(hub, cache, monkeypatch):
    spec = as_released(hub)
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", "http://127.0.0.1:9")
    hub.faults[MIRROR_KEY] = Fault("status", after=404, times=1)
    monkeypatch.setenv("GPEN_MIRROR", f"{hub.url}/plain")
    file = verified_file(spec)
    assert file.is_verified and is_whole(cache, hub)
    assert len(hub.asked) == 2
    assert "the authors' release" in file.notes[0]
    assert read_records(cache)["Tiny.pth"].source == f"{hub.url}/{MIRROR_KEY}"


def test_a_mirror_alone_vouches_for_nothing(hub, cache, monkeypatch):
    monkeypatch.setenv("GPEN_MIRROR", f"{hub.url}/plain")
    file = verified_file(dataclasses.replace(TINY, hub_files=()))
    assert not file.is_verified
    assert any("unverified" in note for note in file.notes)
    assert read_records(cache) == {}


def test_a_known_hash_is_worth_more_than_the_hubs_list(hub, cache):
    spec = dataclasses.replace(
        TINY, sha256="0" * 64, num_bytes=NUM_BYTES, hub_files=(HubFile(REPO, "deep/weights.pt", is_as_released=True),)
    )
    with pytest.raises(WeightsError, match="has another file under this name"):
        verified_file(spec)
    assert hub.num_bytes_sent[HUB_KEY] == 0 and visible(cache) == set()
    # Where ModelScope's file may be another than the released one, its own list counts.
    assert verified_file(dataclasses.replace(spec, hub_files=TINY.hub_files)).is_verified


def test_a_file_put_there_by_hand_is_not_overwritten(hub, cache):
    cache.mkdir()
    (cache / "Tiny.pth").write_bytes(b"by hand")

    def load(file):
        if file.path.read_bytes() == b"by hand":
            raise WeightsError(f"The file {file.path} does not fit.")

    from gpen_core.models.weights import load_weights

    file, _ = load_weights(TINY, load)
    assert file.is_verified and "does not fit" in file.notes[0]
    assert (cache / "Tiny.pth.broken").read_bytes() == b"by hand"


def test_raising_in_progress_stops_it(hub, cache):
    hub.faults[HUB_KEY] = Fault("stall", after=NUM_BYTES // 2)

    def cancel(progress):
        if progress.done:
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        verified_file(TINY, cancel)
    assert visible(cache) == set()


def test_a_disk_too_small_is_named_before_the_download(hub, cache, monkeypatch):
    monkeypatch.setattr(watch.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(WeightsError, match=r"The disk is full: tiny needs 0\.3 MB in .*cache; free some room"):
        verified_file(TINY)
    assert visible(cache) == set() and not list(cache.rglob("*.pt*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_disk_that_fills_up_meanwhile(hub, cache, monkeypatch):
    monkeypatch.setenv("GPEN_MIRROR", f"{hub.url}/plain")
    spec = dataclasses.replace(as_released(hub), urls=(), hub_files=())
    hub.faults[MIRROR_KEY] = Fault("cut", after=1)
    with pytest.raises(WeightsError):
        verified_file(spec)
    (partial,) = cache.rglob("*.incomplete")
    partial.unlink()
    partial.symlink_to("/dev/full")
    hub.faults.clear()
    with pytest.raises(WeightsError, match="The disk is full"):
        verified_file(spec)
    assert visible(cache) == set() and not list(cache.rglob("*.incomplete"))


def test_a_cache_that_cannot_be_written_gives_way_to_a_temporary_one(hub, monkeypatch, tmp_path):
    blocked = tmp_path / "a file" / "cache"
    blocked.parent.write_text("not a folder")
    monkeypatch.setenv("GPEN_CACHE", str(blocked))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with start_fetching() as process:
        told = process.communicate(timeout=60)[0]
    assert "True" in told
    assert "temporary folder, for this run only" in told and str(blocked) in told
    assert not blocked.exists()
    assert list(temporary.iterdir()) == []


def test_without_the_hubs_client_the_mirror_is_asked(hub, cache, monkeypatch, tmp_path):
    (tmp_path / "modelscope_hub.py").write_text("raise ImportError('not installed')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(WeightsError, match="needs the package modelscope-hub"):
        verified_file(TINY)
    monkeypatch.setenv("GPEN_MIRROR", f"{hub.url}/plain")
    assert verified_file(as_released(hub)).is_verified


def test_the_registrys_sources_are_asked_in_order(monkeypatch):
    monkeypatch.setenv("GPEN_MIRROR", "https://mirror.example/weights/")
    assert [offer.source for offer in offers_of(SPECS["gpen-bfr-512"])] == [
        "modelscope:iic/cv_gpen_image-portrait-enhancement/pytorch_model.pt",
        "https://mirror.example/weights/GPEN-BFR-512.pth",
        "https://public-vigen-video.oss-cn-shanghai.aliyuncs.com/robin/models/GPEN-BFR-512.pth",
    ]
