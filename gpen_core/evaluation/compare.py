"""One photo under several settings, side by side: what each takes, and by how much its picture differs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from gpen_core.errors import FAILURES, Cancelled, OptionError, describe_failure
from gpen_core.evaluation.comparison import (
    MAX_SETTINGS,
    MIN_SETTINGS,
    Comparison,
    Difference,
    Setting,
    SettingOutcome,
)
from gpen_core.evaluation.memory import restore_gray
from gpen_core.evaluation.metrics import sharpness
from gpen_core.faces.select import skip_reasons
from gpen_core.options import RestoreOptions, RuntimeOptions, Strength
from gpen_core.photo.background import make_canvas
from gpen_core.photo.io import PhotoSource, read_photo
from gpen_core.restorer import Restorer
from gpen_core.result import RestoreResult
from gpen_core.runtime.device import resolve_device
from gpen_core.runtime.memory import peak_mib, reset_peak
from gpen_core.types import OnProgress, Photo, Pixels, Progress

BAND_ROWS = 256
"""Rows whose differences are held at once."""

GetRestorer: TypeAlias = Callable[[RuntimeOptions, OnProgress], Restorer]
Region: TypeAlias = npt.NDArray[np.bool_]


class _Ran(NamedTuple):
    result: RestoreResult
    seconds: float
    memory_mib: float | None


def compare_settings(
    get_restorer: GetRestorer,
    source: PhotoSource,
    settings: Sequence[Setting],
    on_progress: OnProgress | None = None,
    on_setting: Callable[[int], None] | None = None,
) -> Comparison:
    """Restore one photo with each setting and measure the results against each other.

    Settings that differ in strength or choice of faces alone share one run of the network. A setting that fails is an
    outcome; it does not stop the others. Before its first run each network sees a gray crop, so that what only a first
    run does counts for nobody.

    Args:
        get_restorer: gives the networks of a setting, loaded at their first use.
        source: what `read_photo` reads.
        settings: `MIN_SETTINGS` to `MAX_SETTINGS` of them, all of one scale.
        on_progress: hears each restoration's own stages; raising in it stops everything.
        on_setting: hears the index of each setting as it begins.

    Raises:
        OptionError: too few or too many settings, or different scales.
        PhotoError: the photo cannot be read.
    """
    _check(settings)
    report = on_progress or (lambda progress: None)
    accept_damaged = any(setting.options.accept_damaged for setting in settings)
    photo = read_photo(source, accept_damaged=accept_damaged)
    runs: dict[Setting, _Ran | str] = {}
    results: list[tuple[RestoreResult | None, SettingOutcome]] = []
    for index, setting in enumerate(settings):
        if on_setting is not None:
            on_setting(index)
        shared = _network_setting(setting, settings)
        is_first = shared not in runs
        if is_first:
            runs[shared] = _run(get_restorer, photo, shared, report)
        results.append(_blend(runs[shared], setting, has_run_network=is_first))
    return _measure(make_canvas(photo.pixels, settings[0].options.scale), results)


def _check(settings: Sequence[Setting]) -> None:
    if not MIN_SETTINGS <= len(settings) <= MAX_SETTINGS:
        raise OptionError(f"There are {len(settings)} settings to compare; choose {MIN_SETTINGS} to {MAX_SETTINGS}.")
    scales = sorted({setting.options.scale for setting in settings})
    if len(scales) > 1:
        found = " and ".join(f"{scale:g}" for scale in scales)
        raise OptionError(f"The settings have the scales {found}; choose one, since pictures of one size are compared.")


def _network_setting(setting: Setting, settings: Sequence[Setting]) -> Setting:
    """What the network must run with for this setting and all that need the same of it."""
    alike = {other.options.faces for other in settings if _network_key(other) == _network_key(setting)}
    faces = setting.options.faces if len(alike) == 1 else "all"
    key = _network_key(setting)
    return replace(key, options=replace(key.options, faces=faces))


def _network_key(setting: Setting) -> Setting:
    # `auto` stays: with it, faces that are already sharp are judged in another way.
    strength: Strength = "auto" if setting.options.strength == "auto" else 1.0
    return replace(setting, options=replace(setting.options, strength=strength, faces="all"))


def _run(get_restorer: GetRestorer, photo: Photo, setting: Setting, report: OnProgress) -> _Ran | str:
    try:
        report(Progress("prepare", 0, 1))
        restorer = get_restorer(setting.runtime, report)
        restore_gray(restorer.crop_restorer, lambda step: report(Progress("prepare", 0, 1)))
        device = resolve_device(restorer.runtime.device)
        has_peak = reset_peak(device) is not None
        result = restorer.restore(photo, setting.options, report)
        memory_mib = peak_mib(device) if has_peak else None
    except Cancelled:
        raise
    except FAILURES as error:
        return describe_failure(error)
    return _Ran(result, result.seconds - result.timings.get("compile", 0.0), memory_mib)


def _blend(ran: _Ran | str, setting: Setting, *, has_run_network: bool) -> tuple[RestoreResult | None, SettingOutcome]:
    """The setting's own result, of what the network made for it."""
    if isinstance(ran, str):
        return None, SettingOutcome(setting=setting, error=ran)
    start = time.perf_counter()
    try:
        result = ran.result.recompose(strength=setting.options.strength, faces=_shown(ran.result, setting.options))
    except FAILURES as error:
        return None, SettingOutcome(setting=setting, error=describe_failure(error))
    seconds = time.perf_counter() - start
    return result, SettingOutcome(
        setting=setting,
        photo=result.photo,
        report=result.to_report(),
        seconds=ran.seconds if has_run_network else seconds,
        has_run_network=has_run_network,
        memory_mib=ran.memory_mib if has_run_network else None,
    )


def _shown(result: RestoreResult, options: RestoreOptions) -> list[int] | None:
    """Which of the restored faces this setting asks for; None: all of them."""
    if result.options.faces == options.faces:
        return None
    faces = [face.face for face in result.faces]
    reasons = skip_reasons(faces, options, result.original.width, result.original.height)
    return [index for index, reason in enumerate(reasons) if not reason and index in result.composition.patches]


def _measure(before: Pixels, results: Sequence[tuple[RestoreResult | None, SettingOutcome]]) -> Comparison:
    worked = [result for result, _ in results if result is not None]
    reference = next((index for index, (result, _) in enumerate(results) if result is not None), None)
    region = _face_region(before, worked)
    has_faces = bool(region.any())
    measure = partial(_with_figures, region=region, first=worked[0].photo.pixels if worked else before)
    return Comparison(
        before=before,
        outcomes=tuple(measure(outcome) for _, outcome in results),
        reference=reference,
        places=_places(worked),
        sharpness_before=sharpness(before, region) if has_faces else None,
    )


def _face_region(before: Pixels, results: Sequence[RestoreResult]) -> Region:
    """(H, W) where any setting's faces may count."""
    region = np.zeros(before.shape[:2], dtype=np.bool_)
    for result in results:
        for patch in result.composition.patches.values():
            region[patch.y0 : patch.y1, patch.x0 : patch.x1] |= patch.weights > 0
    return region


def _places(results: Sequence[RestoreResult]) -> tuple[tuple[float, float], ...]:
    """Of the faces of the setting that found the most."""
    if not results:
        return ()
    result = max(results, key=lambda result: len(result.faces))
    centers = [face.face.box.center for face in result.faces]
    return tuple((x * result.scale, y * result.scale) for x, y in centers)


def _with_figures(outcome: SettingOutcome, *, region: Region, first: Pixels) -> SettingOutcome:
    if outcome.photo is None:
        return outcome
    pixels = outcome.photo.pixels
    return replace(
        outcome,
        sharpness=sharpness(pixels, region) if region.any() else None,
        inside=difference_in(first, pixels, region),
        outside=difference_in(first, pixels, ~region),
    )


def difference_in(first: Pixels, second: Pixels, region: Region) -> Difference | None:
    """How far two pictures of one size, (H, W, 3), are apart in a region, (H, W); None where it is empty."""
    total = count = highest = 0
    for top in range(0, len(first), BAND_ROWS):
        rows = slice(top, top + BAND_ROWS)
        levels = np.abs(first[rows][region[rows]].astype(np.int16) - second[rows][region[rows]])
        if levels.size:
            total, count, highest = total + int(levels.sum()), count + levels.size, max(highest, int(levels.max()))
    return Difference(total / count, highest) if count else None
