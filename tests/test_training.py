"""The recipe: identity start, degradations, a step that learns, resume, export."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
from safetensors import safe_open

from gpen_core.evaluation.degrade import LEVELS, degrade
from gpen_core.models.checkpoint import load_generator
from training import checkpoints, degradations, validation
from training.adversarial import Adversary, discriminator_loss
from training.config import TrainingConfig, config_from
from training.data import DegradedPortraits, jitter_geometry, shrink, to_network, to_tensor
from training.export import export
from training.identity import centre_kernels, new_generator
from training.perceptual import DetectorFeatures, perceptual_loss
from training.team import Team
from training.train import Share, Trainer

TINY = TrainingConfig(
    size=64,
    narrow=0.0625,
    style_dim=16,
    num_mlp_layers=2,
    batch_size=2,
    warmup_steps=1,
    num_steps=8,
    ema_decay=0.5,
    precision="fp32",
)


@pytest.fixture(scope="module")
def portraits(request) -> list[np.ndarray]:
    """Smooth pictures with edges, twice the size of the net."""
    rng = np.random.default_rng(5)
    y, x = np.mgrid[:128, :128]
    pictures = []
    for _ in range(3):
        a, b, c = rng.uniform(0.02, 0.3, 3)
        channels = [np.sin(a * x + b * y), np.cos(b * x), np.sign(np.sin(c * (x - y)))]
        pictures.append((127.5 + 100 * np.stack(channels, axis=-1)).astype(np.uint8))
    return pictures


def batch_of(portraits, indices, seed=0):
    dataset = DegradedPortraits(portraits, TINY.size, seed, 100)
    degraded, truth = zip(*(dataset[i] for i in indices), strict=True)
    return to_network(torch.stack(degraded)), to_network(torch.stack(truth))


def train(trainer: Trainer, portraits, steps) -> list[float]:
    losses = []
    for step in steps:
        degraded, truth = batch_of(portraits, [2 * step, 2 * step + 1])
        losses.append(trainer.train_step(degraded, truth, step / TINY.num_steps)[0])
    return losses


@pytest.mark.parametrize("narrow", [0.0625, 0.125])
def test_untrained_network_returns_its_input(narrow):
    generator = new_generator(64, 1, narrow, 16, 2, seed=3)
    pictures = torch.rand(2, 3, 64, 64) * 2 - 1
    with torch.no_grad():
        assert (generator(pictures) - pictures).abs().max() < 1e-6


def test_centred_network_still_returns_its_input(portraits):
    generator = new_generator(64, 1, 0.125, 16, 2, seed=3)
    degraded, _ = batch_of(portraits, range(4))
    centre_kernels(generator, degraded)
    with torch.no_grad():
        assert (generator(degraded) - degraded).abs().max() < 1e-6
        assert all(abs(float(features.std()) - 1) < 1e-3 for features in generator.encode(degraded)[1][:-1])


def test_identity_needs_six_channels():
    with pytest.raises(ValueError, match="needs 6"):
        new_generator(256, 1, 0.0625, 16, 2, seed=0)


def test_every_weight_that_matters_learns_after_two_steps(portraits):
    trainer = Trainer(TINY)
    before = checkpoints.copy_state(trainer.generator.state_dict())
    train(trainer, portraits, range(2))
    after = trainer.generator.state_dict()
    assert not torch.equal(before["generator.convs.7.conv.weight"], after["generator.convs.7.conv.weight"])
    assert not torch.equal(before["ecd0.0.0.weight"], after["ecd0.0.0.weight"])


def test_a_sample_is_the_same_whenever_it_is_drawn(portraits):
    first = DegradedPortraits(portraits, 64, 7, 100).pair(11)
    again = DegradedPortraits(portraits, 64, 7, 100).pair(11)
    other = DegradedPortraits(portraits, 64, 8, 100).pair(11)
    assert np.array_equal(first.degraded, again.degraded) and np.array_equal(first.truth, again.truth)
    assert not np.array_equal(first.degraded, other.degraded)


def test_portraits_are_bent_and_stay_whole(portraits):
    """Eight drawings of one portrait differ in shape, and none is torn: neighbours stay near each other."""
    smooth = cv2.GaussianBlur(portraits[0], (0, 0), 4)
    drawn = [jitter_geometry(smooth, np.random.default_rng(seed)).astype(float) for seed in range(8)]
    step = np.abs(np.diff(smooth.astype(float), axis=1)).max()
    assert all(np.abs(np.diff(picture, axis=1)).max() < 2 * step for picture in drawn)
    mirrored = [smooth.astype(float), smooth[:, ::-1].astype(float)]
    shapes = [min(np.abs(picture - plain).mean() for plain in mirrored) for picture in drawn]
    assert sum(change > 1 for change in shapes) >= 4


def test_damage_can_be_done_at_a_smaller_size_and_answers_are_judged_there(portraits):
    config = replace(TINY, enlarged_from=32)
    degraded, truth = DegradedPortraits(portraits, 64, 0, 100, config.damage_size)[3]
    assert degraded.shape == truth.shape == (3, 64, 64)
    shown = to_network(degraded[None])
    small = torch.nn.functional.avg_pool2d(shown, 2)
    assert Trainer(config).restore(small).shape == small.shape
    # An untrained network returns what it is shown, and enlarging then shrinking all but keeps a smooth picture.
    smooth = torch.nn.functional.avg_pool2d(to_network(truth[None]), 2)
    assert (Trainer(config).restore(smooth) - smooth).abs().mean() < 0.05
    with pytest.raises(ValueError, match="multiple of enlarged_from 48"):
        replace(TINY, enlarged_from=48)


@pytest.mark.parametrize("kind", degradations.KINDS)
def test_degradations_keep_size_and_range(portraits, kind):
    picture = portraits[0][:64, :64].astype(np.float32)
    for seed in range(10):
        pixels = degradations.to_levels(degradations.KIND_STEPS[kind](picture, np.random.default_rng(seed)))
        assert pixels.shape == picture.shape
        assert (kind == "clean") == np.array_equal(pixels, picture)


def test_drawn_damage_covers_the_named_strengths(portraits):
    """As bad as each of them, and better and worse, measured as error against the truth."""
    truth = portraits[0]
    drawn = [degradations.degrade_randomly(truth, np.random.default_rng(seed)) for seed in range(60)]
    errors = np.array([np.square(truth.astype(float) - image).mean() for image in drawn])
    for level in LEVELS.values():
        if not level.is_aged:
            error = np.square(truth.astype(float) - degrade(truth, level, 0)).mean()
            assert 0.02 < (errors < error).mean() < 0.98
    assert (errors == 0).any()


def test_kernels_sum_to_one():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for kernel in (degradations.gaussian_kernel(rng), degradations.motion_kernel(rng)):
            assert kernel.sum() == pytest.approx(1.0, abs=1e-5) and kernel.min() >= 0


def test_steps_lower_the_loss_on_a_fixed_batch(portraits):
    trainer = Trainer(replace(TINY, learning_rate=5e-4))
    truths = [shrink(portrait, TINY.size) for portrait in portraits[:2]]
    pairs = [(degrade(truth, LEVELS["heavy"], seed), truth) for seed, truth in enumerate(truths)]
    degraded, truth = (to_network(torch.stack([to_tensor(p) for p in side])) for side in zip(*pairs, strict=True))
    losses = [trainer.train_step(degraded, truth, 0.0)[0] for _ in range(8)]
    assert losses[1] < losses[0] and losses[-1] < losses[1]


def test_resume_reproduces(portraits, tmp_path):
    straight = Trainer(TINY)
    train(straight, portraits, range(4))
    halted = Trainer(TINY)
    train(halted, portraits, range(2))
    checkpoints.save(tmp_path / "last.pt", halted.state())
    resumed = Trainer(TINY)
    resumed.load_state(checkpoints.load(tmp_path / "last.pt"))
    train(resumed, portraits, range(2, 4))
    for name, value in straight.ema.state_dict().items():
        assert torch.equal(value, resumed.ema.state_dict()[name]), name


def test_processes_share_every_batch_without_overlap():
    config = TrainingConfig(batch_size=4, processes=2)
    shares = [iter(Share(config, Team(rank=rank, size=2), first_step=3)) for rank in range(2)]
    drawn = [[next(share) for _ in range(4)] for share in shares]
    assert drawn == [[12, 13, 16, 17], [14, 15, 18, 19]]


def test_export_loads_as_a_generator_of_the_product(portraits, tmp_path):
    trainer = Trainer(TINY)
    train(trainer, portraits, range(2))
    checkpoints.save(tmp_path / "ema.pt", {"params_ema": trainer.ema.state_dict()})
    export(tmp_path / "ema.pt", tmp_path / "starter.safetensors")
    generator = load_generator(tmp_path / "starter.safetensors", expected_size=64)
    degraded, _ = batch_of(portraits, range(2))
    with torch.no_grad():
        assert (generator(degraded) - trainer.ema(degraded)).abs().max() < 0.01
    with safe_open(tmp_path / "starter.safetensors", "pt") as file:
        assert file.metadata()["template"] == "ffhq" and file.metadata()["narrow"] == "0.0625"


def test_validation_counts_the_face_only(portraits):
    cases = validation.make_cases(portraits, 64, 2)
    assert len(cases) == 2 * len(LEVELS)
    perfect = validation.gains(cases, [case.truth for case in cases], 64)
    unchanged = validation.gains(cases, [case.degraded for case in cases], 64)
    assert all(after > 60 for _, after in perfect.values())
    assert all(after == before for before, after in unchanged.values())


@pytest.mark.parametrize(("flags", "precision"), [("avx2 avx512_bf16", "bf16"), ("avx2 avx512f", "fp32")])
def test_steps_run_in_bf16_only_where_the_processor_has_it(tmp_path, monkeypatch, flags, precision):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"flags : fpu {flags}\n")
    monkeypatch.setattr("gpen_core.runtime.precision.CPUINFO", cpuinfo)
    assert Trainer(replace(TINY, precision="auto")).precision == precision
    assert Trainer(replace(TINY, precision="bf16")).precision == "bf16"


def test_unknown_settings_are_named():
    with pytest.raises(ValueError, match="learning_rte"):
        config_from({"learning_rte": 1})


def test_detector_features_are_those_that_the_detector_runs(astronaut):
    """The same numbers as onnxruntime gives for the detector's backbone."""
    onnx = pytest.importorskip("onnx", reason="the perceptual loss reads the detector by onnx")
    import onnxruntime
    from retinaface.weights import WEIGHTS

    model = onnx.load_from_string(WEIGHTS)
    last = [node.output[0] for node in model.graph.node if node.output[0].startswith("/fx/")][-1]
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(last))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    pixels = astronaut[:128, 160:288].astype(np.float32)
    seen = (pixels[..., ::-1] - (104, 117, 127)).astype(np.float32).transpose(2, 0, 1)[None]
    (expected,) = session.run([last], {"input": seen})
    levels = DetectorFeatures()(torch.from_numpy(pixels / 127.5 - 1).permute(2, 0, 1)[None])
    np.testing.assert_allclose(levels[-1].numpy(), expected, atol=2e-3 * np.abs(expected).max())
    sides = [level.shape[-1] for level in levels]
    assert sides == sorted(sides, reverse=True) and sides[-1] == 4 and len(levels) >= 4


def test_perceptual_loss_grows_with_damage_and_has_a_slope(astronaut):
    pytest.importorskip("onnx", reason="the perceptual loss reads the detector by onnx")
    features = DetectorFeatures()
    truth = to_network(to_tensor(astronaut[40:168, 160:288])[None])
    losses = []
    for strength in (0.0, 0.1, 0.4):
        noisy = truth + strength * torch.randn(truth.shape, generator=torch.Generator().manual_seed(0))
        losses.append(float(perceptual_loss(features, noisy, truth)))
    assert losses[0] < 1e-6 < losses[1] < losses[2] < 4
    noisy.requires_grad_(True)
    perceptual_loss(features, noisy, truth).backward()
    assert noisy.grad.abs().max() > 0


def test_discriminator_learns_to_tell_two_kinds_of_pictures_apart():
    torch.manual_seed(0)
    adversary = Adversary(32, 4, 2e-3, Team(), torch.device("cpu"))
    smooth, rough = torch.zeros(4, 3, 32, 32), torch.rand(4, 3, 32, 32) * 2 - 1
    losses = [adversary.train_step(rough, smooth + 0.1 * torch.rand(4, 1, 1, 1)) for _ in range(40)]
    assert losses[-1] < 0.5 * losses[0]
    with torch.no_grad():
        assert discriminator_loss(adversary.network(smooth), adversary.network(rough)) < losses[0]
    pictures = rough.clone().requires_grad_(True)
    adversary.loss(pictures).backward()
    assert pictures.grad.abs().max() > 0
    assert all(parameter.grad is None for parameter in adversary.network.parameters())


def test_adversarial_phase_begins_when_it_is_due_and_is_resumed(portraits, tmp_path):
    pytest.importorskip("onnx", reason="the perceptual loss reads the detector by onnx")
    config = replace(
        TINY,
        perceptual_weight=0.1,
        adversarial_weight=0.1,
        adversarial_from=0.5,
        discriminator_width=2,
        start_from=None,
    )
    whole = Trainer(config)
    train(whole, portraits, range(8))
    assert whole.adversary.step == 4
    plain = Trainer(TINY)
    train(plain, portraits, range(8))
    weights = [trainer.generator.state_dict()["generator.to_rgb1.conv.weight"] for trainer in (whole, plain)]
    assert not torch.equal(*weights)

    half = Trainer(config)
    train(half, portraits, range(6))
    checkpoints.save(tmp_path / "last.pt", half.state())
    resumed = Trainer(config)
    resumed.load_state(checkpoints.load(tmp_path / "last.pt"))
    train(resumed, portraits, range(6, 8))
    for name, value in whole.adversary.network.state_dict().items():
        assert torch.equal(value, resumed.adversary.network.state_dict()[name]), name
