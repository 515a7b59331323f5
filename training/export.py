"""Write the averaged weights as the product reads them: `python -m training.export --checkpoint EMA.pt --out FILE`."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file

from gpen_core.errors import WeightsError
from gpen_core.models.checkpoint import load_generator
from gpen_core.models.gpen import Generator

TEMPLATE = "ffhq"
LICENCE = "CC0-1.0"


def metadata(generator: Generator) -> dict[str, str]:
    """What a reader of the file wants to know about it, as text."""
    config = generator.config
    return {
        "architecture": "GPEN",
        "size": str(config.size),
        "channel_multiplier": str(config.channel_multiplier),
        "narrow": str(config.narrow),
        "style_dim": str(config.style_dim),
        "n_mlp": str(config.num_mlp_layers),
        "template": TEMPLATE,
        "colour": "RGB",
        "licence": LICENCE,
    }


def export(checkpoint: Path, out: Path) -> None:
    """Store the weights of `checkpoint` in half precision.

    Raises:
        WeightsError: the checkpoint holds no generator.
        ValueError: a weight is outside half precision's range.
    """
    generator = load_generator(checkpoint)
    halves = {name: value.half().contiguous() for name, value in generator.state_dict().items()}
    too_large = [name for name, value in halves.items() if not bool(torch.isfinite(value).all())]
    if too_large:
        raise ValueError(f"{', '.join(too_large)} do not fit half precision")
    save_file(halves, out, metadata=metadata(generator))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="ema.pt or best.pt of a run")
    parser.add_argument("--out", type=Path, required=True, help="the .safetensors file to write")
    arguments = parser.parse_args()
    try:
        export(arguments.checkpoint, arguments.out)
    except (OSError, ValueError, WeightsError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
