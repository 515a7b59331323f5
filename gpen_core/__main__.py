"""`python -m gpen_core`: the same command as `python inference_gpen.py`."""

from gpen_core.cli import main

if __name__ == "__main__":
    main()
