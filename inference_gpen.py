"""Restore the faces in a photo or a folder: the command of the GPEN image, on this project's core.

python inference_gpen.py                       restores the example picture into output_<name>
python inference_gpen.py -i photo.jpg -o out.png
"""

from pathlib import Path

from gpen_core.cli import main

DEFAULT_INPUT = Path(__file__).parent / "examples" / "group.jpg"

if __name__ == "__main__":
    main(default_input=DEFAULT_INPUT)
