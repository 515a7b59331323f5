"""The page's own words, in English. `locales/` holds what the other languages say for them."""

from __future__ import annotations

TITLE = "GPEN · 人脸修复"
HEADING = "GPEN face restoration"
MAX_FILE_SIZE = "50mb"
ABOUT = "Models, limits, privacy"
WARNING = (
    "AI repaints the faces: details may be invented. A result is not evidence of what a person looks like or who it is."
)
START = "Add a photo, then press Restore faces."
NO_PHOTO = "Add a photo first."
NO_MASK = "Mark what is to be filled first: paint over it, or choose a picture that is white there."
GONE = "The photo is not on the server, or no longer; add it again."
RUNNING = "Restoring…"
WAITING = "Waiting for the photos of others: {number} before yours."
WAITING_S = "Waiting for the photos of others: {number} before yours, about {seconds} s."
FAILED = "Not restored: {reason}"
REDUCED = "The picture here is reduced to {size} px; the download has the full size."
STALE = "Photo or settings changed since: press Restore faces."
FACE_PAIR = "Face {number}: before and after"
STAGES = {
    "fetch": (0.0, 0.1, "Fetching the weights"),
    "prepare": (0.0, 0.1, "Preparing the model"),
    "read": (0.1, 0.15, "Reading the photo"),
    "background": (0.15, 0.2, "Enlarging the background"),
    "detect": (0.2, 0.3, "Finding faces"),
    "compile": (0.3, 0.3, ""),
    "restore": (0.3, 0.9, "Restoring faces"),
    "blend": (0.9, 1.0, "Blending"),
}
"""Where on the progress bar each stage begins and ends, and its words; "" where its details say it all."""
MODELS = "**Models.** `python -m gpen_core models` on the server says where the file of a missing one belongs."
PRIVACY = "**Privacy.** Photos go only to the machine that runs this page, which deletes them within {hours} hours."
LICENCES = "Licences: {starter}: {free}, any use; official GPEN weights: {official}."
