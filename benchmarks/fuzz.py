"""Break small pictures of every kind and read them:  python -m benchmarks.fuzz [COUNT]

Each file is read and what came of it is written in all formats, in a process of its own pool with a limit on memory,
so that a crash of a decoder, which no Python error tells of, is counted too.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

COUNT = 10_000
CHUNK = 250
MEMORY_MIB = 4096
SLOW_S = 5.0


def try_chunk(first: int, count: int) -> tuple[Counter[str], float, list[str]]:
    """Outcomes, the longest time of one file in seconds, and what went wrong."""
    from benchmarks.mutations import check, mutate, seeds

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MIB * 2**20, MEMORY_MIB * 2**20))
    files = seeds()
    names = sorted(files)
    outcomes: Counter[str] = Counter()
    longest_s, faults = 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + count):
            rng = random.Random(number)
            name = names[number % len(names)]
            content = mutate(files[name], rng, files[rng.choice(names)])
            start = time.perf_counter()
            try:
                outcome = check(content, Path(folder))
            except Exception as error:  # noqa: BLE001 - what is looked for
                outcome = "fault"
                faults.append(f"{number} ({name}): {type(error).__name__}: {error}")
            took_s = time.perf_counter() - start
            longest_s = max(longest_s, took_s)
            outcomes[outcome] += 1
            if took_s > SLOW_S:
                outcomes["slow"] += 1
                print(f"{number} ({name}): {outcome} after {took_s:.1f} s", flush=True)
    return outcomes, longest_s, faults


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    total: Counter[str] = Counter()
    longest_s, faults, start = 0.0, [], time.perf_counter()
    for first in range(0, count, CHUNK):
        size = min(CHUNK, count - first)
        try:
            with ProcessPoolExecutor(1) as pool:
                outcomes, took_s, wrong = pool.submit(try_chunk, first, size).result(timeout=600)
        except BrokenProcessPool:
            outcomes, took_s, wrong = Counter(crashed=1), 0.0, [f"{first} to {first + size}: the process died"]
        total += outcomes
        longest_s = max(longest_s, took_s)
        faults += wrong
    seconds = time.perf_counter() - start
    print(f"{count} broken files in {seconds:.0f} s, the longest {longest_s:.2f} s")
    print(", ".join(f"{number} {outcome}" for outcome, number in sorted(total.items())))
    print("\n".join(faults[:40]) or "no fault")


if __name__ == "__main__":
    main()
