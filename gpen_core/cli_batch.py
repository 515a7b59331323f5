"""The command over a folder of any file system and by any engine: `batch`. Prints, as `cli.py` does."""

from __future__ import annotations

import sys
from collections import Counter

from gpen_core.cli_weights import EXIT_FAILED, EXIT_OK
from gpen_core.options import BatchOptions, ClusterOptions, OutputOptions, RestoreOptions, RuntimeOptions


def run_cluster(
    source: str,
    output: str,
    options: RestoreOptions,
    *,
    runtime: RuntimeOptions,
    written: OutputOptions,
    batch: BatchOptions,
    cluster: ClusterOptions,
) -> int:
    """Do it, print what became of each photo, and give the exit status.

    Raises:
        GpenError: see `gpen_core.cluster.run.restore_on_cluster`.
    """
    from tqdm import tqdm

    from gpen_core.cluster.places import place_of
    from gpen_core.cluster.run import restore_on_cluster

    counts: Counter[str] = Counter()
    failures = []
    outcomes = restore_on_cluster(
        place_of(source),
        place_of(output),
        options,
        runtime=runtime,
        written=written,
        batch=batch,
        cluster=cluster,
    )
    for outcome in tqdm(outcomes, unit="photo", disable=None, file=sys.stderr):
        counts[outcome.status] += 1
        if outcome.status == "failed":
            failures.append(f"{outcome.name}: {outcome.error}")
        with tqdm.external_write_mode(file=sys.stdout):
            print(f"{outcome.name} -> {outcome.output}: {outcome.summary or outcome.status}")
            for note in outcome.notes:
                print(f"  note: {note}")
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    print(f"{sum(counts.values())} photos: {told}. Results are in {output}.")
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return EXIT_FAILED if failures else EXIT_OK
