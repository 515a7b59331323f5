"""A batch by Ray beside the same on this machine, with two networks killed in the middle:  python -m benchmarks.cluster

Compares every result byte by byte, counts what became of each photo, and prints photos a second of both, and the memory
of Ray's workers over time. COUNT photos (default 2000) are made from the examples.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from PIL import Image

COUNT = 2000
NUM_KINDS = 20
NUM_KILLED = 2
NUM_ACTORS = 2
SAMPLE_S = 2.0
EXAMPLES = Path(__file__).parent.parent / "examples"


def make_photos(folder: Path, count: int) -> None:
    """Small photos with one to three faces, and one file that is none."""
    single = Image.open(EXAMPLES / "astronaut-small.jpg").convert("RGB")
    group = Image.open(EXAMPLES / "group.jpg").convert("RGB").resize((480, 360))
    folder.mkdir()
    for kind in range(min(NUM_KINDS, count)):
        photo = group if kind % 5 == 0 else single.resize((160 + 8 * kind, 160 + 8 * kind))
        photo.save(folder / f"{kind:05d}.jpg", quality=80 + kind % 15)
    for number in range(NUM_KINDS, count):
        os.link(folder / f"{number % NUM_KINDS:05d}.jpg", folder / f"{number:05d}.jpg")
    (folder / "broken.jpg").write_text("no photo")


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.jpg"))}


def kill_networks(output: Path, count: int, killed: list[int]) -> None:
    """SIGKILL a network's process once a third, and once two thirds of the results are there."""
    for part in range(1, NUM_KILLED + 1):
        while len(list(output.glob("*.jpg"))) < count * part // (NUM_KILLED + 1):
            time.sleep(0.5)
        found = [
            pid
            for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
            if is_network(pid)
        ]
        if found:
            os.kill(found[0], signal.SIGKILL)
            killed.append(found[0])


def is_network(pid: int) -> bool:
    """By the title that Ray gives its processes."""
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return title.startswith(b"ray::") and b"MapBatches(Network)" in title


class Memory(threading.Thread):
    """Samples what Ray's workers have in memory, shared pages counted once: (results there, MiB)."""

    def __init__(self, output: Path) -> None:
        super().__init__(daemon=True)
        self._output = output
        self._is_over = threading.Event()
        self.samples: list[tuple[int, float]] = []

    def run(self) -> None:
        while not self._is_over.wait(SAMPLE_S):
            total_kib = sum(pss_kib(path) for path in Path("/proc").iterdir() if path.name.isdigit())
            self.samples.append((len(list(self._output.glob("*.jpg"))), total_kib / 1024))

    def stop(self) -> None:
        self._is_over.set()
        self.join()

    def in_tenths(self, count: int) -> list[int]:
        """Mean MiB in each tenth of the run, by results."""
        means = []
        for tenth in range(10):
            found = [mib for done, mib in self.samples if count * tenth <= done * 10 < count * (tenth + 1)]
            means.append(round(sum(found) / len(found)) if found else 0)
        return means


def pss_kib(process: Path) -> int:
    """Proportional set size of one of Ray's workers, 0 of others."""
    try:
        if not (process / "cmdline").read_bytes().startswith(b"ray::"):
            return 0
        lines = (process / "smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    except OSError:
        return 0


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    # Results are equal to the byte where both sides use as many threads; Ray gives each process one core.
    os.environ["OMP_NUM_THREADS"] = "1"
    from gpen_core.batch import restore_folder
    from gpen_core.cluster.places import Place
    from gpen_core.cluster.run import restore_on_cluster
    from gpen_core.folders import list_photos
    from gpen_core.options import ClusterOptions, RestoreOptions, RuntimeOptions
    from gpen_core.restorer import Restorer

    runtime = RuntimeOptions(model="starter-256")
    with tempfile.TemporaryDirectory() as folder:
        source, local, remote = (Path(folder, name) for name in ("photos", "local", "ray"))
        make_photos(source, count)
        start = time.perf_counter()
        photos = list_photos(source).photos
        done = list(restore_folder(Restorer(runtime=runtime), photos, local, RestoreOptions()))
        told = Counter(str(outcome.status) for outcome in done)
        del done
        local_s = time.perf_counter() - start
        print(f"this machine: {count / local_s:.2f} photos/s, {dict(told)}", flush=True)
        remote.mkdir()
        killed: list[int] = []
        killer = threading.Thread(target=kill_networks, args=(remote, count, killed), daemon=True)
        killer.start()
        memory = Memory(remote)
        memory.start()
        cluster = ClusterOptions(engine="ray", actors=NUM_ACTORS, cpus_per_actor=1 / NUM_ACTORS)
        start = time.perf_counter()
        outcomes = list(
            restore_on_cluster(
                Place(str(source)), Place(str(remote)), RestoreOptions(), runtime=runtime, cluster=cluster
            )
        )
        remote_s = time.perf_counter() - start
        memory.stop()
        told = Counter(outcome.status for outcome in outcomes)
        print(f"ray: {count / remote_s:.2f} photos/s with its start, {dict(told)}; {len(killed)} networks killed")
        print(f"MiB of all workers, by tenths of the results: {memory.in_tenths(count)}")
        names = Counter(outcome.name for outcome in outcomes)
        here, there = hashes(local), hashes(remote)
        num_equal = sum(there.get(name) == value for name, value in here.items())
        print(f"ratio {local_s / remote_s:.2f}; {num_equal} of {len(here)} results equal, {len(there)} there;")
        print(f"{len(names)} of {count + 1} photos told of, {sum(names.values()) - len(names)} twice")


if __name__ == "__main__":
    main()
