"""The page's words, and how it looks."""

from __future__ import annotations

from gpen_core.models.registry import STARTER, get_spec

TITLE = "GPEN face restoration"
MAX_FILE_SIZE = "50mb"
ABOUT = "Models, limits, privacy"
WARNING = (
    "AI repaints the faces: details may be invented. A result is not evidence of what a person looks like or who it is."
)
OFFICIAL = get_spec("gpen-bfr-512")
LICENCES = f"Licences: {STARTER.name}: {STARTER.licence}, any use; official GPEN weights: {OFFICIAL.licence_text}."
START = "Add a photo, then press Restore."
NO_PHOTO = "Add a photo first."
RUNNING = "Restoring…"
CRASHED = "Something went wrong; the server's log has the details."
MODE_LABELS = {"faces": "Faces", "whole": "Whole picture (for close-ups)", "both": "Whole picture, and faces over it"}
TILE_LABELS = {"tile_px": "Whole picture: size of tiles", "overlap_px": "Whole picture: overlap of tiles"}
STAGES = {
    "fetch": (0.0, 0.1, "Fetching the weights"),
    "prepare": (0.0, 0.1, "Preparing the model"),
    "read": (0.1, 0.15, "Reading the photo"),
    "background": (0.15, 0.15, "Enlarging the background"),
    "detect": (0.15, 0.3, "Finding faces"),
    "compile": (0.3, 0.3, ""),
    "restore": (0.3, 0.9, "Restoring faces"),
    "blend": (0.9, 1.0, "Blending"),
}
"""Where on the progress bar each stage begins and ends, and its words; "" where its details say it all."""
CSS = """
#status { overflow-wrap: anywhere } #status p { margin: 0 }
#status ul { margin: .4em 0 0; padding-left: 1.2em; list-style: disc }
#run, #download { min-height: 44px }
"""
