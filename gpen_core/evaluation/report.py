"""What came out of an evaluation, as a table, CSV, JSON and a contact sheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gpen_core.errors import PhotoError
from gpen_core.evaluation.contenders import BASELINES
from gpen_core.evaluation.evaluate import Evaluation, Row, SheetRow
from gpen_core.evaluation.options import check_outputs
from gpen_core.evaluation.region import FACE_WEIGHT, SIZE_PX, TEMPLATE
from gpen_core.evaluation.scorer import FIGURES, Figure, Scores, explain, figures_of
from gpen_core.photo.write import write_photo
from gpen_core.types import Photo, Pixels
from gpen_core.version import __version__

NO_FIGURE = "-"
CSV_DIGITS = 6
LABEL_HEIGHT_PX = 20
FONT_SIZE_PX = 14
GAP_PX = 4


def mean_scores(rows: Sequence[Row]) -> dict[str, float | None]:
    """The mean of each figure over the rows that have it; None where all of them leave it open."""
    keys = dict.fromkeys(key for row in rows for key in row.scores)
    columns = {key: [row.scores.get(key) for row in rows] for key in keys}
    known = {key: [value for value in values if value is not None] for key, values in columns.items()}
    return {key: fmean(values) if values else None for key, values in known.items()}


def group_rows(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Rows by strength and model, in the order they were asked for."""
    strengths, models = dict.fromkeys(row.strength for row in rows), dict.fromkeys(row.model for row in rows)
    groups: dict[tuple[str, str], list[Row]] = {(strength, model): [] for strength in strengths for model in models}
    for row in rows:
        groups[row.strength, row.model].append(row)
    return groups


def render_text(evaluation: Evaluation) -> str:
    """For people: what was compared, the table of means, what the columns mean, and every note."""
    options = evaluation.options
    what = "portraits" if options.truth else "faces"
    lines = [f"{evaluation.num_pictures} {what} at {SIZE_PX} px"]
    for model in evaluation.contenders:
        lines.append(
            f"{model['label']}: {model['file']}, sha256 {model['sha256'][:12]}, {model['device']}, "
            f"{model['precision']}{', compiled' if model['compiled'] else ''}"
        )
    loads = ", ".join(map(str, evaluation.machine["load_average"]))
    lines.append(
        f"{evaluation.machine['threads']} threads on {evaluation.machine['cores']} cores, load average {loads}"
    )
    notes = [f"note: {note}" for note in evaluation.notes]
    meanings = explain(options.metric_names, has_truth=options.truth)
    return "\n".join([*lines, "", render_table(evaluation), "", meanings, *notes])


def render_table(evaluation: Evaluation) -> str:
    """Aligned columns: the mean of each figure by strength and model."""
    options = evaluation.options
    figures = figures_of(options.metric_names, has_truth=options.truth)
    headings = ["strength", "model"]
    for figure in figures:
        headings += [figure.heading, "change"] if figure.is_shown_change else [figure.heading]
    lines = [headings]
    groups = {key: mean_scores(rows) for key, rows in group_rows(evaluation.rows).items()}
    for (strength, model), means in groups.items():
        cells = [strength, model]
        for figure in figures:
            cells += _cells(figure, means, groups[strength, BASELINES[0]], is_input=model == BASELINES[0])
        lines.append(cells)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number < 2 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(figure: Figure, means: Scores, means_of_input: Scores, *, is_input: bool) -> list[str]:
    value, before = means.get(figure.key), means_of_input.get(figure.key)
    shown = NO_FIGURE if value is None else f"{value:.{figure.digits}f}"
    if not figure.is_shown_change:
        return [shown]
    if value is None or before is None or is_input:
        return [shown, ""]
    return [shown, f"{value - before:+.{figure.digits}f}"]


def render_csv(evaluation: Evaluation) -> str:
    """One line a picture, strength and model; empty where there is no figure."""
    keys = [figure.key for figure in FIGURES if figure.metric in evaluation.options.metric_names]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["picture", "strength", "model", *keys])
    for row in evaluation.rows:
        values = [row.scores.get(key) for key in keys]
        shown = ["" if value is None else f"{value:.{CSV_DIGITS}g}" for value in values]
        writer.writerow([row.picture, row.strength, row.model, *shown])
    return file.getvalue()


def render_json(evaluation: Evaluation) -> str:
    """Everything: what was asked, what ran, on what machine, each picture's figures and their means."""
    options = evaluation.options
    means = [
        {"strength": strength, "model": model, "num_pictures": len(rows), **mean_scores(rows)}
        for (strength, model), rows in group_rows(evaluation.rows).items()
    ]
    figures: dict[str, Any] = {
        "gpen_core": __version__,
        "data": options.data,
        "inputs": options.inputs,
        "has_truth": options.truth,
        "metrics": list(options.metric_names),
        "size_px": SIZE_PX,
        "template": TEMPLATE,
        "face_region": f"where the paste mask is above {FACE_WEIGHT}",
        "machine": dict(evaluation.machine),
        "models": [dict(model) for model in evaluation.contenders],
        "means": means,
        "pictures": [
            {"picture": row.picture, "strength": row.strength, "model": row.model, **row.scores}
            for row in evaluation.rows
        ],
        "skipped": [{"name": skipped.name, "reason": skipped.reason} for skipped in evaluation.skipped],
        "notes": list(evaluation.notes),
    }
    return json.dumps(figures, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def draw_sheet(headings: Sequence[str], rows: Sequence[SheetRow]) -> Pixels:
    """(H, W, 3) contact sheet: the headings, then each row's label above its pictures; a cross where there is none."""
    width = len(headings) * (SIZE_PX + GAP_PX) - GAP_PX
    row_height = LABEL_HEIGHT_PX + SIZE_PX
    sheet = Image.new("RGB", (width, LABEL_HEIGHT_PX + len(rows) * row_height), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(FONT_SIZE_PX)
    for column, heading in enumerate(headings):
        draw.text((column * (SIZE_PX + GAP_PX) + GAP_PX, 0), heading, fill="black", font=font)
    for number, row in enumerate(rows):
        top = LABEL_HEIGHT_PX + number * row_height
        draw.text((GAP_PX, top), row.label, fill="black", font=font)
        for column, pixels in enumerate(row.images):
            left = column * (SIZE_PX + GAP_PX)
            box = (left, top + LABEL_HEIGHT_PX, left + SIZE_PX - 1, top + LABEL_HEIGHT_PX + SIZE_PX - 1)
            if pixels is None:
                draw.line(box, fill="black")
                draw.line((box[0], box[3], box[2], box[1]), fill="black")
            else:
                sheet.paste(Image.fromarray(pixels), box[:2])
    return np.asarray(sheet)


def write_outputs(evaluation: Evaluation) -> tuple[str, ...]:
    """Write the files that were asked for, each under a temporary name first; their names.

    Raises:
        PhotoError: a file has come to exist meanwhile, or cannot be written.
    """
    options = evaluation.options
    check_outputs(options)
    if options.csv is not None:
        _write_text(Path(options.csv), render_csv(evaluation))
    if options.json is not None:
        _write_text(Path(options.json), render_json(evaluation))
    if options.sheet is not None:
        write_photo(Photo(pixels=draw_sheet(evaluation.sheet_headings, evaluation.sheet_rows)), options.sheet)
    return tuple(name for name in (options.csv, options.json, options.sheet) if name is not None)


def _write_text(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise PhotoError(f"{path} could not be written: {error.strerror}.") from error
