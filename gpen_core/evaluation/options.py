"""Every option of `evaluate`. Pure Python, so that `--help` answers without loading numpy or torch."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from gpen_core.errors import OptionError, PhotoError
from gpen_core.options import RESTORING_MODELS, Allowed, RestoreOptions, Strength, allowed, check_all, option

STRENGTHS = ("light", "medium", "heavy", "old")
"""Names of the degradations of `gpen_core.evaluation.degrade`."""
METRICS = ("psnr", "ssim", "lpips", "niqe", "sharpness", "color", "seam", "seconds", "memory")
ASKED_METRICS = frozenset({"lpips"})
"""Measured only where named: they need a package that this project does not install."""
TRUTH_METRICS = frozenset({"psnr", "ssim", "lpips", "color"})
WEIGHTS_SUFFIXES = (".safetensors", ".pth", ".pt")
OUTPUT_SUFFIXES = {"csv": ".csv", "json": ".json", "sheet": ".png"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    """One of the models to compare, as it was asked for."""

    text: str
    model: str
    weights: Path | None
    strength: Strength

    @classmethod
    def parse(cls, text: str) -> ModelChoice:
        """A model from `NAME`, `FILE` or `NAME=FILE`, each with or without `@STRENGTH`.

        Raises:
            OptionError: there is no such model, or no such strength.
        """
        name, _, strength = text.partition("@")
        model, _, weights = name.rpartition("=")
        if Path(name).is_file() or (not model and name.endswith(WEIGHTS_SUFFIXES)):
            model, weights = "auto", name
        elif not model:
            model, weights = name, ""
        if model not in RESTORING_MODELS:
            raise OptionError(
                f"There is no model or weights file {name!r} to restore with; choose among "
                f"{', '.join(RESTORING_MODELS)}, or name a file."
            )
        return cls(
            text=text, model=model, weights=Path(weights) if weights else None, strength=_parse_strength(strength)
        )


def _parse_strength(text: str) -> Strength:
    if text in ("", "auto"):
        return "auto" if text else 1.0
    if not re.fullmatch(r"\d*\.?\d+", text):
        raise OptionError(f"The strength {text!r} after @ is no number; give one from 0 to 1, or auto.")
    allowed(RestoreOptions, "strength").check("strength", float(text))
    return float(text)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationOptions:
    """What to measure, on what. Checked on construction.

    Raises:
        OptionError: a value is outside what is allowed, or two of them exclude each other.
    """

    data: str = field(
        metadata={"allowed": Allowed(help="folder of good portraits; or, with --no-truth, of any photos")}
    )
    inputs: str | None = option(
        None, "folder of damaged pictures with the same names as the good ones, to restore instead of made ones"
    )
    truth: bool = option(
        True, "the pictures are good ones to compare with; without, they are what is restored", choices=(True, False)
    )
    aligned: bool = option(
        False,
        "the pictures are square crops aligned as in FFHQ; else the largest face of each is found",
        choices=(True, False),
    )
    models: str = option(
        "auto",
        "names of models or weights files, separated by commas; NAME=FILE takes the file as that model, with its size "
        "and alignment; @STRENGTH after either blends, @auto chooses the blend for each face",
    )
    strengths: str | None = option(None, f"how bad the inputs are made: any of {', '.join(STRENGTHS)} (default: all)")
    metrics: str | None = option(
        None, f"any of {', '.join(METRICS)} (default: all that apply but {','.join(sorted(ASKED_METRICS))})"
    )
    limit: int = option(0, "take only so many pictures, the first by name; 0 takes all", minimum=0, maximum=100000)
    csv: str | None = option(None, "also write each picture's figures to this file")
    json: str | None = option(None, "also write everything, with weights' hashes and versions, to this file")
    sheet: str | None = option(None, "also write a contact sheet, to look at, to this file")
    sheet_limit: int = option(16, "rows of the contact sheet at most", minimum=1, maximum=100)

    def __post_init__(self) -> None:
        check_all(self)
        _check_words("strength", self.strength_names, STRENGTHS)
        _check_words("metric", self.metric_names, METRICS)
        _check_combination(self)
        for name, suffix in OUTPUT_SUFFIXES.items():
            path = getattr(self, name)
            if path is not None and Path(path).suffix.lower() != suffix:
                raise OptionError(f"{name} is {path!r}; choose a name that ends in {suffix}.")
        if not self.model_choices:
            raise OptionError("No model is named; give at least one, such as auto.")

    @property
    def model_choices(self) -> tuple[ModelChoice, ...]:
        return tuple(ModelChoice.parse(name) for name in _split(self.models))

    @property
    def strength_names(self) -> tuple[str, ...]:
        return STRENGTHS if self.strengths is None else _split(self.strengths)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """What is measured: what was named, else all that applies and needs no further package."""
        if self.metrics is not None:
            return _split(self.metrics)
        unfit = ASKED_METRICS if self.truth else ASKED_METRICS | TRUTH_METRICS
        return tuple(name for name in METRICS if name not in unfit)


def _split(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _check_words(what: str, words: tuple[str, ...], known: tuple[str, ...]) -> None:
    unknown = [word for word in words if word not in known]
    if unknown:
        raise OptionError(f"There is no {what} {unknown[0]!r}; choose among: {', '.join(known)}.")
    if not words:
        raise OptionError(f"No {what} is named; choose among: {', '.join(known)}.")


def _check_combination(options: EvaluationOptions) -> None:
    if options.inputs is not None and options.strengths is not None:
        raise OptionError("The inputs are given, so there are no strengths to make them at; leave one of both out.")
    if options.truth:
        return
    for name, is_given in (
        ("--inputs", options.inputs is not None),
        ("--strengths", options.strengths is not None),
        ("--aligned", options.aligned),
    ):
        if is_given:
            raise OptionError(f"{name} has no meaning for photos without a truth; leave it or --no-truth out.")
    unfit = [name for name in options.metric_names if name in TRUTH_METRICS]
    if unfit:
        fit = ", ".join(name for name in METRICS if name not in TRUTH_METRICS)
        raise OptionError(f"The metric {unfit[0]} needs a truth to compare with; without one choose among: {fit}.")


def check_outputs(options: EvaluationOptions) -> None:
    """Raise where a file to write exists already, or has no folder. Before anything runs, so that no hour is lost.

    Raises:
        PhotoError: says which.
    """
    for name in OUTPUT_SUFFIXES:
        if getattr(options, name) is None:
            continue
        path = Path(getattr(options, name))
        if path.exists():
            raise PhotoError(f"{path} exists, and a figure is never written over; choose another name or move it away.")
        if not path.absolute().parent.is_dir():
            raise PhotoError(f"There is no folder {path.absolute().parent} to write {path.name} into; make it first.")
