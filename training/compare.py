"""Settings compared at equal cost: `python -m training.compare --data FOLDER --variants training/comparison.yaml`.

Every variant trains for the same number of processor seconds on the same samples, data and reports not counted, with a
whole schedule of its own. So a wider network sees fewer samples, and what else the machine does changes nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml  # type: ignore[import-untyped]

from gpen_core.evaluation.degrade import LEVELS
from gpen_core.types import Pixels
from training import validation
from training.config import TrainingConfig, config_from
from training.data import DegradedPortraits, to_network
from training.train import ENDLESS, NUM_FITTING, Trainer, read_training, read_validation

COLUMNS = ("parameters", "samples", "ms", *LEVELS, "mean")


def read_variants(path: Path) -> dict[str, TrainingConfig]:
    """Named settings: those of `common`, and each variant's own.

    Raises:
        ValueError: a setting does not exist, or a value is not allowed.
    """
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    common = content["common"]
    return {name: config_from({**common, **(own or {})}) for name, own in content["variants"].items()}


def train_at_cost(
    config: TrainingConfig, portraits: Sequence[Pixels], unseen: Sequence[Pixels], cpu_s: float
) -> dict[str, Any]:
    """Train for `cpu_s` processor seconds; figures on the unseen portraits, gains in dB by strength."""
    trainer = Trainer(config)
    dataset = DegradedPortraits(portraits, config.size, config.seed, ENDLESS, config.damage_size)
    trainer.prepare(to_network(torch.stack([dataset[i][0] for i in range(NUM_FITTING)])))
    spent_s = 0.0
    while spent_s < cpu_s:
        first = trainer.step * config.batch_size
        samples = [dataset[first + i] for i in range(config.batch_size)]
        degraded, truth = (to_network(torch.stack(pictures)) for pictures in zip(*samples, strict=True))
        before_s = time.process_time()
        trainer.train_step(degraded, truth, spent_s / cpu_s)
        spent_s += time.process_time() - before_s
    cases = validation.make_cases(unseen, config.damage_size, len(unseen))
    restored = validation.restore(trainer.restore, [case.degraded for case in cases])
    gains = {
        name: round(after - before, 3)
        for name, (before, after) in validation.gains(cases, restored, config.damage_size).items()
    }
    num_samples = trainer.step * config.batch_size
    return {
        "parameters": sum(parameter.numel() for parameter in trainer.generator.parameters()),
        "samples": num_samples,
        "ms": round(1000 * spent_s / num_samples, 1),
        **gains,
        "mean": round(sum(gains.values()) / len(gains), 3),
    }


def table(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """In Markdown, best first."""
    lines = [f"| variant | {' | '.join(COLUMNS)} |", f"|---{'|---' * len(COLUMNS)}|"]
    for name, own in sorted(figures.items(), key=lambda item: -item[1]["mean"]):
        lines.append(f"| {name} | {' | '.join(str(own[column]) for column in COLUMNS)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of aligned portraits, or of train/ and val/")
    parser.add_argument("--variants", type=Path, required=True, help="YAML file: common settings, and each variant's")
    parser.add_argument("--cpu-seconds", type=float, default=300.0, help="for each (%(default)s)")
    parser.add_argument("--only", help="names of variants, separated by commas (default: all)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    variants = read_variants(options.variants)
    names = options.only.split(",") if options.only else list(variants)
    torch.set_num_threads(1)
    figures: dict[str, dict[str, Any]] = {}
    for name in names:
        config = variants[name]
        portraits = read_training(options.data, config)
        unseen = read_validation(options.data, portraits, config)
        figures[name] = train_at_cost(config, portraits, unseen, options.cpu_seconds)
        print(table({name: figures[name]}).splitlines()[-1], flush=True)
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(table(figures))


if __name__ == "__main__":
    main()
