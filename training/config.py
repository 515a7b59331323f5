"""The settings of a training run, read from a YAML file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingConfig:
    """Everything that decides what comes out, but for the pictures."""

    size: int = 256
    channel_multiplier: int = 1
    narrow: float = 0.25
    style_dim: int = 512
    num_mlp_layers: int = 8

    enlarged_from: int | None = None
    """Pictures are damaged at this size, of which `size` is a multiple, and enlarged; None: at `size` itself."""

    start_from: str | None = None
    """Weights file of the same widths, or of narrower ones, to start from; None starts from the identity."""
    seed: int = 0
    batch_size: int = 4
    """Pictures in one optimisation step, over all processes."""
    num_steps: int = 20_000
    """Length of the schedule where `--minutes` sets none."""
    learning_rate: float = 2e-3
    hidden_rate: float = 8.0
    """The learning rate of the 3x3 convolutions is so many times the others'."""
    final_learning_rate: float = 2e-5
    warmup_steps: int = 100
    clip_norm: float = 1.0
    ema_decay: float = 0.998

    face_weight: float = 1.0
    """Weight of pixels in the face region, which is what the product pastes back."""
    rim_weight: float = 0.4
    """Weight of the other pixels."""
    gradient_weight: float = 0.1
    """Of the loss on differences between neighbouring pixels, against 1 for the pixels."""
    coarse_weight: float = 0.0
    """Of the pixels' error at a half, a quarter and an eighth of the size."""
    frequency_weight: float = 0.0
    """Of the difference between Fourier coefficients."""

    perceptual_weight: float = 0.0
    """Of the difference that the embedded detector's backbone sees; 0 leaves it out."""
    adversarial_weight: float = 0.0
    """Of the adversarial loss; 0 leaves it and the discriminator out. A step costs more, and
    far more steps are needed."""
    adversarial_from: float = 0.5
    """Share of the schedule after which the adversarial phase begins: first the pictures have to be near."""
    discriminator_width: int = 16
    """Channels of the discriminator at full resolution."""
    discriminator_rate: float = 1e-3
    """Its learning rate."""

    processes: int = 1
    """Processes that share each batch, one thread each; with 1, all threads work on one batch."""
    precision: str = "auto"
    """`auto` is bf16 where the device multiplies such numbers itself, which is several times faster, else fp32.
    `bf16` asked for by name is used everywhere: without those instructions a step takes ten times as long."""
    compile: bool = False
    report_minutes: float = 2.0
    num_validation: int = 8

    def __post_init__(self) -> None:
        if self.precision not in ("auto", "fp32", "bf16"):
            raise ValueError(f"precision is {self.precision!r}; choose auto, fp32 or bf16")
        if not 0 <= self.adversarial_from <= 1:
            raise ValueError(f"adversarial_from {self.adversarial_from} is not a share of the schedule, 0 to 1")
        if self.processes < 1 or self.batch_size % self.processes:
            raise ValueError(f"batch_size {self.batch_size} is not a multiple of processes {self.processes}")
        if self.size % self.damage_size:
            raise ValueError(f"size {self.size} is not a multiple of enlarged_from {self.enlarged_from}")

    @property
    def damage_size(self) -> int:
        """Side of the pictures where they are damaged, and where the answers are judged."""
        return self.enlarged_from or self.size


def read_config(path: Path) -> TrainingConfig:
    """Settings of a YAML file; what it leaves out keeps its default.

    Raises:
        ValueError: it names a setting that does not exist, or a value is not allowed.
    """
    return config_from(yaml.safe_load(path.read_text(encoding="utf-8")) or {})


def config_from(values: dict[str, Any]) -> TrainingConfig:
    known = {field.name for field in fields(TrainingConfig)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise ValueError(f"unknown settings {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    return TrainingConfig(**values)


def config_values(config: TrainingConfig) -> dict[str, Any]:
    """The settings as plain values, for checkpoints and logs."""
    return asdict(config)
