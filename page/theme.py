"""How the page looks: Gradio's default in blue, with the contrast that WCAG AA asks for in light and in dark."""

from __future__ import annotations

import gradio as gr

CSS = """
:is(#status, #batch_status, #check_status) { overflow-wrap: anywhere; border: 1px solid var(--border-color-primary);
  border-radius: var(--block-radius) }
:is(#status, #batch_status, #check_status) p { margin: 0; font-weight: 600; font-size: 1.05em }
:is(#status, #batch_status, #check_status) ul { margin: .4em 0 0; padding-left: 1.2em; list-style: disc }
:is(#status, #batch_status, #check_status) progress {
  width: 100%; height: 6px; margin-top: .5em; accent-color: #1d4ed8
}
#status [data-testid="status-tracker"], .gradio-container [data-testid="status-tracker"] .error { display: none }
#stale { background: #fef3c7; color: #78350f; border-radius: var(--block-radius); font-weight: 600 }
.gradio-container:has(#stale:not(.hidden)) #results { opacity: .55 }
#run, #stop, #download, #report { min-height: 44px }
#batch_run, #batch_stop, #batch_more, #batch_download, #check_run, #check_stop, #check_download { min-height: 44px }
.gradio-container [role="tab"][aria-selected="true"] { color: #1d4ed8 }
.dark .gradio-container [role="tab"][aria-selected="true"], .gradio-container.dark [role="tab"][aria-selected="true"] {
  color: #93c5fd }
#batch_files .icon-button[aria-haspopup] { display: none }
#pairs .grid-wrap { max-height: none; min-height: 0 }
#pairs .thumbnail-item { aspect-ratio: 2.05 }
@media (max-width: 640px) { #pairs .grid-container { grid-template-columns: 1fr } }
#result img, #before img, #after img, #overview img { max-height: 60vh }
"""


def theme() -> gr.themes.Base:
    return gr.themes.Default(primary_hue="blue", neutral_hue="slate").set(
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover_dark="*primary_600",
        button_cancel_background_fill="#b91c1c",
        button_cancel_background_fill_hover="#991b1b",
        button_cancel_background_fill_dark="#b91c1c",
        button_cancel_text_color="white",
        button_cancel_text_color_dark="white",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        block_title_text_color="*neutral_700",
        block_label_text_color="*neutral_700",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
        link_text_color="*primary_700",
        link_text_color_dark="*primary_300",
        link_text_color_hover="*primary_800",
        link_text_color_hover_dark="*primary_200",
    )
