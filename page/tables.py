"""Tables for people: readable on a phone too, where each row becomes a card."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple


class Row(NamedTuple):
    """One row; cells are HTML."""

    head: str
    cells: Sequence[str]
    state: str
    """For the looks."""


def table_html(label: str, headers: Sequence[str], rows: Sequence[Row]) -> str:
    """A table in a region that can be scrolled by keyboard.

    Args:
        label: what the table is, for screen readers; text.
        headers: of the columns, the row's own head first; text.
        rows: a row with a single cell spans all columns.
    """
    head = "".join(f'<th scope="col">{escape(header)}</th>' for header in headers)
    body = "".join(_row_html(row, headers) for row in rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(label)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row_html(row: Row, headers: Sequence[str]) -> str:
    span = f' colspan="{len(headers) - 1}"' if len(row.cells) == 1 else ""
    cells = "".join(
        f'<td{span} data-label="{escape(header)}">{cell}</td>'
        for header, cell in zip(headers[1:] if not span else headers[-1:], row.cells, strict=True)
    )
    return f'<tr data-state="{escape(row.state)}"><th scope="row">{row.head}</th>{cells}</tr>'


TABLE_CSS = """
.wide { max-height: 36rem; overflow: auto; border: 1px solid var(--border-color-primary); border-radius: 8px }
.wide:focus-visible { outline: 3px solid #3b82f6; outline-offset: 2px }
.wide table { width: 100%; margin: 0; border: 0; border-collapse: collapse; font-size: .92rem }
.wide tr { border: 0 }
.wide th, .wide td { padding: .55rem .7rem; border: 0; text-align: left; vertical-align: top; overflow-wrap: anywhere;
  font-variant-numeric: tabular-nums }
.wide thead th { position: sticky; top: 0; background: var(--background-fill-secondary); overflow-wrap: normal }
.wide tbody td, .wide tbody th { border-top: 1px solid var(--border-color-primary) }
.wide tbody th { font-weight: 500; min-width: 9rem }
.wide td:last-child { min-width: 13rem; font-size: .86rem }
.letter { display: inline-block; min-width: 1.6em; padding: 0 .35em; border-radius: 6px; text-align: center;
  background: #1d4ed8; color: #fff }
.state { display: inline-block; padding: .1rem .55rem; border-radius: 1rem; white-space: nowrap;
  background: #e2e8f0; color: #1e293b }
[data-state="working"] .state { background: #dbeafe; color: #1e3a8a }
[data-state="restored"] .state { background: #dcfce7; color: #14532d }
[data-state="failed"] .state { background: #fee2e2; color: #7f1d1d }
[data-state="no faces"] .state, [data-state="skipped"] .state { background: #fef3c7; color: #713f12 }
.legend { margin: .6rem 0 0; font-size: .9rem; color: var(--body-text-color-subdued) }
@media (max-width: 640px) {
  .wide { max-height: 90vh }
  .wide thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  .wide tbody tr { display: block; padding: .55rem .7rem; border-top: 1px solid var(--border-color-primary) }
  .wide tbody th, .wide tbody td { display: block; padding: .12rem 0; border: 0; min-width: 0 }
  .wide tbody td:empty { display: none }
  .wide tbody td::before { content: attr(data-label) ": "; color: var(--body-text-color-subdued) }
}
"""
