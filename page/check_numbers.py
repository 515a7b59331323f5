"""The numbers of a comparison as a table for people. Knows no Gradio."""

from __future__ import annotations

from functools import partial
from html import escape

from gpen_core.evaluation.comparison import Comparison, Difference, SettingOutcome
from page.check_job import LETTERS, title_of
from page.jobs import without_folders
from page.languages import say, translate
from page.site import status_html
from page.tables import Row, table_html

HEADERS = (
    "Setting",
    "Seconds",
    "Memory at most",
    "Sharpness of the faces",
    "Differs in the faces",
    "Differs elsewhere",
    "What ran, what to know",
)
SUMMARY = "{count} settings compared on {faces} faces."
SUMMARY_ONE_FACE = "{count} settings compared on one face."
SUMMARY_NO_FACE = "{count} settings compared. No face was found, so the photo stayed as it was."
SUMMARY_FAILED = "{count} failed; the table says why."
NO_NETWORK = "{milliseconds} ms, blended anew"
SHARPNESS = "{value} ({factor} × the photo's)"
SAME = "nowhere"
INVISIBLE = "by 1 of 255 at most, which cannot be seen"
DIFFERS = "by {mean} of 255 on average, {maximum} at most"
REFERENCE = "compared with this one"
NOTES = (
    "Seconds: one run, without loading and compiling. Memory: of the whole program, or on a GPU of its part there, as"
    " far as the system tells. Sharpness: variance of the Laplacian; noise counts as sharpness too. Differences: in"
    " grey levels, to setting {letter}."
)
MIB_PER_GIB = 1024


def summary_html(comparison: Comparison, tongue: str) -> str:
    """What was compared, for the status line."""
    num_failed = sum(bool(outcome.error) for outcome in comparison.outcomes)
    values = {"count": len(comparison.outcomes), "faces": len(comparison.places)}
    sentence = {0: SUMMARY_NO_FACE, 1: SUMMARY_ONE_FACE}.get(len(comparison.places), SUMMARY)
    headline = say(tongue, sentence, **values)
    return status_html(headline, [say(tongue, SUMMARY_FAILED, count=num_failed)] if num_failed else [])


def numbers_html(comparison: Comparison, tongue: str) -> str:
    """One row a setting, in the order they were given."""
    rows = [_row(comparison, index, tongue) for index in range(len(comparison.outcomes))]
    label = say(tongue, "What each setting took, and by how much it differs")
    legend = say(tongue, NOTES, letter=LETTERS[comparison.reference or 0])
    table = table_html(label, [say(tongue, header) for header in HEADERS], rows)
    return f'{table}<p class="legend">{escape(legend)}</p>'


def _row(comparison: Comparison, index: int, tongue: str) -> Row:
    outcome = comparison.outcomes[index]
    settings = [each.setting for each in comparison.outcomes]
    title = title_of(outcome.setting, settings, partial(say, tongue))
    head = f'<b class="letter">{LETTERS[index]}</b> {escape(title)}'
    if outcome.error:
        error = escape(translate(without_folders(outcome.error), tongue))
        return Row(head, [f'<span class="state">{escape(say(tongue, "Failed"))}</span> {error}'], "failed")
    is_reference = index == comparison.reference
    cells = [
        _seconds(outcome, tongue),
        _memory(outcome.memory_mib),
        _sharpness(outcome.sharpness, comparison.sharpness_before, tongue),
        say(tongue, REFERENCE) if is_reference else _difference(outcome.inside, tongue),
        "" if is_reference else _difference(outcome.outside, tongue),
    ]
    return Row(head, [*map(escape, cells), _ran(outcome, tongue)], "restored")


def _seconds(outcome: SettingOutcome, tongue: str) -> str:
    seconds = outcome.seconds or 0.0
    if outcome.has_run_network:
        return f"{seconds:.2f}"
    return say(tongue, NO_NETWORK, milliseconds=max(1, round(1000 * seconds)))


def _memory(mib: float | None) -> str:
    if mib is None:
        return "–"
    return f"{mib / MIB_PER_GIB:.1f} GB" if mib >= MIB_PER_GIB else f"{mib:.0f} MB"


def _sharpness(value: float | None, before: float | None, tongue: str) -> str:
    if value is None or not before:
        return "–"
    return say(tongue, SHARPNESS, value=f"{value:.0f}", factor=f"{value / before:.2f}")


def _difference(difference: Difference | None, tongue: str) -> str:
    if difference is None:
        return "–"
    if difference.maximum == 0:
        return say(tongue, SAME)
    if difference.maximum == 1:
        return say(tongue, INVISIBLE)
    return say(tongue, DIFFERS, mean=f"{difference.mean:.2f}", maximum=difference.maximum)


def _ran(outcome: SettingOutcome, tongue: str) -> str:
    """Model, device and precision as they really ran, and every note."""
    report = outcome.report or {}
    ran = [str(report.get(name, "")) for name in ("model", "device", "precision")]
    notes = [translate(without_folders(note), tongue) for note in report.get("notes", ())]
    return "<br>".join(escape(line) for line in (" · ".join(ran), *notes))
