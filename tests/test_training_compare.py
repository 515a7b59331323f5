"""Variants of the recipe at equal cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from training import compare

SETTINGS = """
common: {size: 64, narrow: 0.0625, style_dim: 16, num_mlp_layers: 2, batch_size: 2, num_validation: 2}
variants:
  narrow:
  wide: {narrow: 0.25}
"""


@pytest.fixture
def data(tmp_path) -> Path:
    random = np.random.default_rng(0)
    for folder in ("train", "val"):
        (tmp_path / folder).mkdir()
        for i in range(2):
            coarse = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(coarse).resize((128, 128), Image.Resampling.BICUBIC).save(tmp_path / folder / f"{i}.png")
    (tmp_path / "variants.yaml").write_text(SETTINGS)
    return tmp_path


def test_variants_take_the_same_time_and_so_see_different_numbers_of_samples(data, capsys):
    files = ["--data", str(data), "--variants", str(data / "variants.yaml")]
    compare.main([*files, "--cpu-seconds", "2", "--json", str(data / "figures.json")])
    header, _, *rows = capsys.readouterr().out.splitlines()[-4:]
    assert header.startswith("| variant | parameters | samples | ms | light | medium | heavy | old | mean |")
    samples = {row.split(" | ")[0].strip("| "): int(row.split(" | ")[2]) for row in rows}
    assert samples["narrow"] > samples["wide"] > 0
    assert '"wide"' in (data / "figures.json").read_text()


def test_one_variant_can_be_asked_for_and_an_unknown_setting_is_named(data, capsys):
    files = ["--data", str(data), "--variants", str(data / "variants.yaml")]
    compare.main([*files, "--cpu-seconds", "0.1", "--only", "wide"])
    assert "narrow" not in capsys.readouterr().out
    (data / "variants.yaml").write_text("common: {}\nvariants:\n  odd: {widht: 2}\n")
    with pytest.raises(ValueError, match="widht"):
        compare.main(files)
