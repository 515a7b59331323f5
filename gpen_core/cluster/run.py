"""Drive a batch by Ray Data: the stages, how many of each, and what becomes of every photo."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpen_core.cluster.places import Place
from gpen_core.cluster.stages import Absent, Network, Work, finish, prepare
from gpen_core.errors import DeviceError, OptionError, PhotoError
from gpen_core.folders import plan_outputs
from gpen_core.manifest import DONE, parse_records, settings_of
from gpen_core.options import BatchOptions, ClusterOptions, OutputOptions, RestoreOptions, RuntimeOptions
from gpen_core.restorer import Restorer

PHOTOS_IN_A_BLOCK = 16
"""Photos that Ray moves, and does again where a machine is lost, together."""
PHOTOS_IN_A_CALL = 4
"""Photos whose faces go through the network together."""
CPUS_BESIDE = 0.5
"""Share of a core that a task beside the network is counted with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterOutcome:
    """What became of one photo."""

    name: str
    status: str
    """restored, no faces, failed or skipped."""
    output: str
    error: str = ""
    summary: str = ""
    notes: tuple[str, ...] = ()


def restore_on_cluster(
    source: Place,
    output: Place,
    options: RestoreOptions,
    *,
    runtime: RuntimeOptions,
    written: OutputOptions | None = None,
    batch: BatchOptions | None = None,
    cluster: ClusterOptions | None = None,
) -> Iterator[ClusterOutcome]:
    """Restore a folder's photos; yields an outcome for each, as they come.

    Joins the cluster that RAY_ADDRESS names, else starts one on this machine. Results and `manifest.jsonl` are those of
    a batch on one machine with as many threads.

    Args:
        source: where the photos are.
        output: where the results go.
        options: what to do.
        runtime: how the networks run.
        written: how results are written, and what else is.
        batch: which photos, and whether those that have their result are passed over.
        cluster: how many networks, and what each takes.

    Raises:
        OptionError: the task needs masks.
        PhotoError: a folder cannot be read, or source and output are the same.
        DeviceError: Ray is not installed, or its cluster cannot be joined.
    """
    written, batch, cluster = written or OutputOptions(), batch or BatchOptions(), cluster or ClusterOptions()
    if source == output and not written.overwrite_originals:
        raise PhotoError(f"{output.address} holds the originals, which are never overwritten; choose another output.")
    # Before Ray starts: what is wrong with the weights should be said once, and here.
    restorer = Restorer(runtime=runtime)
    if restorer.task.needs_mask:
        raise OptionError(f"Task {restorer.task.name} needs masks, which a cluster is not given; use --engine local.")
    settings = settings_of(options, written, restorer.model_name, restorer.model_sha256, restorer.task.name)
    work = Work(
        source=source,
        output=output,
        options=options,
        written=written,
        runtime=replace(runtime, task=restorer.task.name),
        network=Absent.like(restorer.crop_restorer),
        settings=json.dumps(settings),
        notes=restorer.loading_notes,
    )
    del restorer
    rows, skipped = _plan(work, batch)
    yield from skipped
    if rows:
        yield from _run(rows, work, cluster)


def _plan(work: Work, batch: BatchOptions) -> tuple[list[dict[str, Any]], list[ClusterOutcome]]:
    """The photos to do, and those that have their result."""
    photos = work.source.list_photos(batch, passed=work.output)
    outputs = plan_outputs([Path(file.name) for file in photos], Path(), Path(), work.written.format)
    records = parse_records(work.output.merge_manifest(), json.loads(work.settings))
    sizes = work.output.sizes() if batch.skip_existing else {}
    rows, skipped = [], []
    for file in photos:
        output = outputs[Path(file.name)].as_posix()
        record = records.get(file.name, {})
        is_same = record.get("input_state") == list(file.state) and bool(record.get("settings"))
        if is_same and record.get("status") in DONE and record.get("output") == output and sizes.get(output):
            skipped.append(ClusterOutcome(name=file.name, status="skipped", output=output))
        else:
            rows.append({"name": file.name, "output": output, "state": list(file.state)})
    return rows, skipped


def _run(rows: list[dict[str, Any]], work: Work, cluster: ClusterOptions) -> Iterator[ClusterOutcome]:
    ray = _start_ray()
    # Listing is ours, since the plan needs all names; from here on Ray decides what runs where and when.
    data = ray.data.from_items(rows, override_num_blocks=max(1, -(-len(rows) // PHOTOS_IN_A_BLOCK)))
    data = data.map(prepare, fn_kwargs={"work": work}, num_cpus=CPUS_BESIDE)
    data = data.map_batches(
        Network,
        fn_constructor_kwargs={"work": work},
        batch_size=PHOTOS_IN_A_CALL,
        batch_format="numpy",
        concurrency=cluster.actors or (1, _room(ray, cluster)),
        num_cpus=cluster.cpus_per_actor,
        num_gpus=cluster.gpus_per_actor or None,
    )
    data = data.map_batches(
        finish, fn_kwargs={"work": work}, batch_size=None, batch_format="numpy", num_cpus=CPUS_BESIDE
    )
    try:
        for row in data.iter_rows():
            notes = tuple(row.pop("notes").split("\n")) if row["notes"] else ()
            row.pop("notes", None)
            yield ClusterOutcome(**row, notes=notes)
    finally:
        work.output.merge_manifest()


def _start_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise DeviceError("The engine ray needs Ray; install it with: pip install -r requirements-ray.txt") from error
    if not ray.is_initialized():
        try:
            # RAY_ADDRESS is read by Ray itself.
            ray.init(log_to_driver=False, include_dashboard=False) if "RAY_ADDRESS" not in os.environ else ray.init()
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise DeviceError(f"The Ray cluster could not be joined: {error}.") from error
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray


def _room(ray: Any, cluster: ClusterOptions) -> int:
    """How many networks the cluster has room for, with a core left for the rest."""
    resources = ray.cluster_resources()
    by_cpu = (resources.get("CPU", 1) - 1) // cluster.cpus_per_actor
    by_gpu = resources.get("GPU", 0) // cluster.gpus_per_actor if cluster.gpus_per_actor else by_cpu
    return max(1, int(min(by_cpu, by_gpu)))
