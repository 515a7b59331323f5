"""Train a generator: `python -m training.train --data FOLDER --config training/starter256.yaml --out runs/NAME`."""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import torch
from torch import Tensor
from torch.multiprocessing.spawn import spawn
from torch.nn import functional as F
from torch.utils.data import Sampler

from gpen_core.models.checkpoint import load_generator
from gpen_core.runtime.precision import why_no_gain
from gpen_core.types import Pixels
from training import checkpoints, validation
from training.adversarial import Adversary
from training.config import TrainingConfig, config_values, read_config
from training.data import DegradedPortraits, batches, read_portraits, to_network
from training.identity import HIDDEN_WEIGHT, centre_kernels, new_generator
from training.losses import LossShares, restoration_loss
from training.perceptual import DetectorFeatures, perceptual_loss
from training.team import Team, join, leave
from training.widen import widen

ENDLESS = 10**9
NUM_FITTING = 16
"""Pictures that an untrained network is fitted to."""
LAST_FILE = "last.pt"
EMA_FILE = "ema.pt"
BEST_FILE = "best.pt"


class Trainer:
    """Network, its running average, optimiser and schedule: what a step changes and a checkpoint keeps."""

    def __init__(self, config: TrainingConfig, team: Team | None = None, device: str = "cpu") -> None:
        self.config = config
        self.team = team or Team()
        self.device = torch.device(device)
        self.precision = resolve_precision(config.precision, self.device)
        shape = (config.size, config.channel_multiplier, config.narrow, config.style_dim, config.num_mlp_layers)
        self.generator = new_generator(*shape, seed=config.seed).to(self.device)
        if config.start_from is not None:
            widen(load_generator(Path(config.start_from), config.size), self.generator)
        self.ema = copy.deepcopy(self.generator).requires_grad_(False).eval()
        self.optimizer = torch.optim.Adam(self._parameter_groups(), betas=(0.9, 0.99), fused=True)
        self.step = 0
        self.elapsed_s = 0.0
        self.weights = self._pixel_weights()
        self.shares = LossShares(
            gradient=config.gradient_weight, coarse=config.coarse_weight, frequency=config.frequency_weight
        )
        self.features = DetectorFeatures().to(self.device) if config.perceptual_weight else None
        self.adversary: Adversary | None = None
        if config.adversarial_weight:
            torch.manual_seed(config.seed)
            width, rate = config.discriminator_width, config.discriminator_rate
            self.adversary = Adversary(config.size, width, rate, self.team, self.device)
        self.forward: Callable[[Tensor], Tensor] = self.generator.forward
        if config.compile:
            self.forward = torch.compile(self.generator.forward)

    def prepare(self, pictures: Tensor) -> None:
        """Fit an untrained network to the pictures; before the first step only, and not where it starts from a file."""
        if self.step == 0 and self.config.start_from is None:
            centre_kernels(self.generator, pictures.to(self.device))
            self.ema.load_state_dict(self.generator.state_dict())

    def _parameter_groups(self) -> list[dict[str, Any]]:
        """Hidden convolutions apart: their stored weights have unit variance, so a step is small against them."""
        hidden: list[Tensor] = []
        others: list[Tensor] = []
        for name, parameter in self.generator.named_parameters():
            is_hidden = HIDDEN_WEIGHT.fullmatch(name) is not None
            (hidden if is_hidden else others).append(parameter)
        return [{"params": hidden, "rate": self.config.hidden_rate}, {"params": others, "rate": 1.0}]

    def _pixel_weights(self) -> Tensor:
        region = torch.from_numpy(validation.face_region(self.config.size)).to(self.device)
        return self.config.rim_weight + (self.config.face_weight - self.config.rim_weight) * region

    def autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16")

    def learning_rate(self, progress: float) -> float:
        """Linear warm-up in steps, then half a cosine over the whole run."""
        low, high = self.config.final_learning_rate, self.config.learning_rate
        cosine = low + (high - low) * 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))
        return cosine * min(1.0, (self.step + 1) / max(1, self.config.warmup_steps))

    def loss(self, degraded: Tensor, truth: Tensor, *, is_adversarial: bool = False) -> tuple[Tensor, Tensor]:
        """The loss, and the restored pictures that it came from."""
        with self.autocast():
            restored = self.forward(degraded)
        restored = restored.float()
        loss = restoration_loss(restored, truth, self.weights, self.shares)
        if self.features is not None:
            loss = loss + self.config.perceptual_weight * perceptual_loss(self.features, restored, truth)
        if is_adversarial and self.adversary is not None:
            loss = loss + self.config.adversarial_weight * self.adversary.loss(restored)
        return loss, restored

    def train_step(self, degraded: Tensor, truth: Tensor, progress: float) -> tuple[float, float, float]:
        """One update from this process's share of a batch in [-1, 1]; returns loss, gradient norm, agreed progress."""
        truth = truth.to(self.device)
        is_adversarial = self.adversary is not None and progress >= self.config.adversarial_from
        loss, restored = self.loss(degraded.to(self.device), truth, is_adversarial=is_adversarial)
        torch.autograd.backward(loss)
        progress = self.team.average_gradients(self.generator.parameters(), progress)
        norm = torch.nn.utils.clip_grad_norm_(self.generator.parameters(), self.config.clip_norm)
        if bool(torch.isfinite(norm)):
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate(progress) * group["rate"]
            self.optimizer.step()
        self.optimizer.zero_grad()
        if is_adversarial and self.adversary is not None:
            self.adversary.train_step(restored, truth)
        self.step += 1
        self._average_weights()
        return float(loss.detach()), float(norm), progress

    @torch.no_grad()
    def _average_weights(self) -> None:
        """The average forgets faster at first, so that it soon leaves the untrained network behind."""
        decay = min(self.config.ema_decay, (1 + self.step) / (10 + self.step))
        torch._foreach_lerp_(list(self.ema.parameters()), list(self.generator.parameters()), 1.0 - decay)

    def restore(self, degraded: Tensor) -> Tensor:
        """The averaged network's answer, at the size of the damaged pictures."""
        factor = self.config.size // self.config.damage_size
        shown = degraded.to(self.device)
        if factor > 1:
            shown = F.interpolate(shown, scale_factor=factor, mode="bicubic", align_corners=False).clamp(-1.0, 1.0)
        with self.autocast():
            answer: Tensor = self.ema(shown)
        return F.avg_pool2d(answer.float(), factor)

    def state(self) -> dict[str, Any]:
        return {
            "config": config_values(self.config),
            "step": self.step,
            "elapsed_s": self.elapsed_s,
            "generator": self.generator.state_dict(),
            "ema": self.ema.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "adversary": None if self.adversary is None else self.adversary.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.generator.load_state_dict(state["generator"])
        self.ema.load_state_dict(state["ema"])
        rates = [group["rate"] for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict(state["optimizer"])
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["rate"] = rate
        # A run that began without the phase goes on with a new discriminator.
        if self.adversary is not None and state.get("adversary") is not None:
            self.adversary.load_state(state["adversary"])
        self.step, self.elapsed_s = int(state["step"]), float(state["elapsed_s"])


class Share(Sampler[int]):
    """Indices of one process's share of every batch, from step `first_step` on."""

    def __init__(self, config: TrainingConfig, team: Team, first_step: int) -> None:
        self._batch_size = config.batch_size
        self._share = config.batch_size // team.size
        self._start = team.rank * self._share
        self._first_step = first_step

    def __iter__(self) -> Iterator[int]:
        step = self._first_step
        while True:
            start = step * self._batch_size + self._start
            yield from range(start, start + self._share)
            step += 1

    def __len__(self) -> int:
        return ENDLESS


class Reporter:
    """Now and then: validation, a log line, a sheet, checkpoints."""

    def __init__(self, trainer: Trainer, portraits: Sequence[Pixels], out: Path) -> None:
        config = trainer.config
        self._trainer = trainer
        self._cases = validation.make_cases(portraits, config.damage_size, config.num_validation)
        self._out = out
        self._best = -math.inf
        self._losses: list[float] = []
        self._norms: list[float] = []
        self._since = time.monotonic()

    def add(self, loss: float, norm: float) -> None:
        self._losses.append(loss)
        self._norms.append(norm)

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self._since > self._trainer.config.report_minutes * 60

    def report(self) -> None:
        trainer, seconds = self._trainer, time.monotonic() - self._since
        restored = validation.restore(trainer.restore, [case.degraded for case in self._cases])
        levels = validation.gains(self._cases, restored, trainer.config.damage_size)
        mean_gain = sum(after - before for before, after in levels.values()) / len(levels)
        self._log(levels, mean_gain, seconds)
        validation.write_sheet(self._out / "sheet.png", self._cases, restored)
        checkpoints.save(self._out / LAST_FILE, trainer.state())
        averaged = {"params_ema": trainer.ema.state_dict()}
        checkpoints.save(self._out / EMA_FILE, averaged)
        if mean_gain > self._best:
            self._best = mean_gain
            checkpoints.save(self._out / BEST_FILE, averaged)
        self._losses, self._norms, self._since = [], [], time.monotonic()

    def _log(self, levels: dict[str, tuple[float, float]], mean_gain: float, seconds: float) -> None:
        trainer = self._trainer
        steps = max(1, len(self._losses))
        figures = {
            "minutes": round(trainer.elapsed_s / 60, 1),
            "step": trainer.step,
            "samples": trainer.step * trainer.config.batch_size,
            "samples_per_s": round(len(self._losses) * trainer.config.batch_size / max(seconds, 1e-9), 2),
            "precision": trainer.precision,
            "learning_rate": round(float(trainer.optimizer.param_groups[-1]["lr"]), 6),
            "loss": round(sum(self._losses) / steps, 4),
            "gradient_norm": round(sum(self._norms) / steps, 3),
            "mean_gain_db": round(mean_gain, 3),
            "gain_db": {name: round(after - before, 3) for name, (before, after) in levels.items()},
            "time": time.strftime("%H:%M:%S"),
        }
        with (self._out / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(figures) + "\n")


def run(trainer: Trainer, data: Path, out: Path, minutes: float | None) -> None:
    """Train until the schedule ends."""
    config, team = trainer.config, trainer.team
    portraits = read_training(data, config)
    reporter = None
    if team.is_first:
        reporter = Reporter(trainer, read_validation(data, portraits, config), out)
    dataset = DegradedPortraits(portraits, config.size, config.seed, ENDLESS, config.damage_size)
    trainer.prepare(to_network(torch.stack([dataset[i][0] for i in range(NUM_FITTING)])))
    compile_in_turn(trainer)
    share = Share(config, team, trainer.step)
    started = time.monotonic() - trainer.elapsed_s
    for degraded, truth in batches(dataset, share, config.batch_size // team.size):
        trainer.elapsed_s = time.monotonic() - started
        own_progress = trainer.elapsed_s / (60 * minutes) if minutes else trainer.step / config.num_steps
        loss, norm, progress = trainer.train_step(to_network(degraded), to_network(truth), own_progress)
        is_last = progress >= 1.0 if minutes else trainer.step >= config.num_steps
        if reporter is not None:
            reporter.add(loss, norm)
            if reporter.is_due or is_last:
                reporter.report()
        if is_last:
            return


def resolve_precision(asked: str, device: torch.device) -> str:
    """fp32 or bf16: what was asked for, `auto` by what the device gains from."""
    if asked != "auto":
        return asked
    return "fp32" if why_no_gain("bf16", device) else "bf16"


def read_training(data: Path, config: TrainingConfig) -> list[Pixels]:
    """The folder `train` inside, else the folder itself."""
    return read_portraits(data / "train" if (data / "train").is_dir() else data, config.size)


def read_validation(data: Path, portraits: list[Pixels], config: TrainingConfig) -> list[Pixels]:
    """The folder `val` beside `train`, else the first training portraits."""
    folder = data / "val" if (data / "val").is_dir() else data.parent / "val"
    return read_portraits(folder, config.size) if folder.is_dir() else portraits[: config.num_validation]


def compile_in_turn(trainer: Trainer) -> None:
    """A forward and backward pass, one process after the other: the later ones find what the first compiled."""
    config, team = trainer.config, trainer.team
    for rank in range(team.size if config.compile else 0):
        if rank == team.rank:
            size = (config.batch_size // team.size, 3, config.size, config.size)
            blank = torch.zeros(size, device=trainer.device)
            torch.autograd.backward(trainer.loss(blank, blank)[0])
            trainer.optimizer.zero_grad()
        team.wait()


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of aligned portraits, or of train/ and val/")
    parser.add_argument("--config", type=Path, required=True, help="YAML file of settings")
    parser.add_argument("--out", type=Path, default=Path("runs/starter"), help="folder of the run (%(default)s)")
    parser.add_argument("--minutes", type=float, help="length of the whole run, instead of the settings' num_steps")
    parser.add_argument("--resume", action="store_true", help=f"go on from {LAST_FILE} in the run's folder")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    return parser.parse_args(arguments)


def work(rank: int, arguments: argparse.Namespace, config: TrainingConfig, address_file: str) -> None:
    """What each process does."""
    cv2.setNumThreads(1)
    team = Team()
    if config.processes > 1:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // config.processes))
        team = join(rank, config.processes, address_file)
    trainer = Trainer(config, team, arguments.device)
    if arguments.resume:
        trainer.load_state(checkpoints.load(arguments.out / LAST_FILE))
    run(trainer, arguments.data, arguments.out, arguments.minutes)
    leave()


def main() -> None:
    arguments = parse_arguments()
    try:
        config = read_config(arguments.config)
        if arguments.device != "cpu":
            config = replace(config, processes=1)
        arguments.out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            address = str(Path(folder) / "team")
            if config.processes == 1:
                work(0, arguments, config, address)
            else:
                spawn(work, (arguments, config, address), nprocs=config.processes)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
