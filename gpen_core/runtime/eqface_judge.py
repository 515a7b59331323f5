"""Is the restored face still the same person? A gate as in ModelScope's pipeline, with RGB on both sides."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gpen_core.errors import WeightsError
from gpen_core.models.checkpoint import describe_differences, read_state_dict
from gpen_core.models.eqface import Backbone, QualityHead
from gpen_core.runtime.judge import Verdict
from gpen_core.types import Pixels


class EqFaceJudge:
    """EQFace's backbone and quality head. One call at a time."""

    def __init__(self, backbone: Path, quality: Path, device: torch.device) -> None:
        """Load `eqface_backbone.pth` and `eqface_quality.pth`.

        Raises:
            WeightsError: a file does not fit.
        """
        self._backbone = load_eqface(Backbone(), backbone).to(device)
        self._quality = load_eqface(QualityHead(), quality).to(device)
        self._device = device
        self._lock = threading.Lock()

    def judge(self, before: Sequence[Pixels], after: Sequence[Pixels]) -> list[Verdict]:
        with self._lock, torch.inference_mode():
            features, pooled = self._backbone(self._to_network(before))
            restored, _ = self._backbone(self._to_network(after))
            distances = 1.0 - F.cosine_similarity(features, restored)
            qualities = self._quality(pooled)
        return [
            Verdict(quality=quality, distance=distance)
            for quality, distance in zip(qualities.tolist(), distances.tolist(), strict=True)
        ]

    def _to_network(self, faces: Sequence[Pixels]) -> Tensor:
        batch = torch.from_numpy(np.stack(faces)).to(self._device)
        return batch.permute(0, 3, 1, 2).float().sub(127.5).div(128.0)


def load_eqface(network: nn.Module, path: Path) -> nn.Module:
    """Fill one of EQFace's networks from its file.

    Raises:
        WeightsError: the file does not fit.
    """
    state = read_state_dict(path)
    expected = network.state_dict()
    # Counters of training steps, which some savers leave out; they play no part here.
    state |= {key: value for key, value in expected.items() if key.endswith("num_batches_tracked") and key not in state}
    differences = describe_differences(expected, state)
    if differences is not None:
        raise WeightsError(f"The file {path} does not belong to EQFace: {differences}.")
    network.load_state_dict(state, strict=True)
    return network.requires_grad_(False).eval()
