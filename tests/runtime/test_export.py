"""A model as a file of its own: it computes the same, says what it is, and restores photos by itself."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from gpen_core import cli
from gpen_core.errors import DeviceError, OptionError, WeightsError
from gpen_core.models.gpen import Generator
from gpen_core.models.registry import STARTER
from gpen_core.models.verify import WeightsFile
from gpen_core.options import ExportOptions, RestoreOptions, RuntimeOptions
from gpen_core.restorer import Restorer
from gpen_core.runtime import export
from gpen_core.runtime.export import export_generator, run_onnx
from gpen_core.runtime.onnx_engine import OnnxEngine
from gpen_core.types import SIGNED_RANGE
from tests.fakes import FakeDetector, frontal_face

RESTORING = {"task": "restore", "value_range": SIGNED_RANGE}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def generator() -> Generator:
    torch.manual_seed(0)
    return Generator(32, style_dim=16, num_mlp_layers=2, channel_multiplier=1, narrow=1 / 16).eval()


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> WeightsFile:
    path = tmp_path_factory.mktemp("weights") / "small.safetensors"
    return WeightsFile(spec=STARTER, path=path, sha256="ab" * 32, is_verified=True)


@pytest.fixture(scope="module")
def onnx_path(generator, file, tmp_path_factory):
    pytest.importorskip("onnxscript", reason="ONNX files are written with onnxscript")
    path = tmp_path_factory.mktemp("onnx") / "small.onnx"
    exported = export_generator(generator, file, path, ExportOptions(), CPU, **RESTORING)
    assert exported.max_difference < 1e-4
    assert exported.num_bytes == path.stat().st_size
    return path


@pytest.mark.parametrize("num_faces", [1, 2, 5])
def test_an_onnx_file_computes_what_the_generator_does_for_any_number_of_faces(onnx_path, generator, num_faces):
    x = torch.rand(num_faces, 3, 32, 32, generator=torch.Generator().manual_seed(7)) * 2 - 1
    with torch.no_grad():
        wanted = generator(x)
    np.testing.assert_allclose(run_onnx(onnx_path)(x), wanted, atol=1e-4)


def test_it_says_what_it_is(onnx_path):
    import onnx

    model = onnx.load(onnx_path)
    about = {entry.key: entry.value for entry in model.metadata_props}
    assert about["gpen.model"] == "starter-256"
    assert about["gpen.sha256"] == "ab" * 32
    assert about["gpen.licence"] == STARTER.licence_text
    assert float(about["gpen.max_difference"]) < 1e-4
    assert model.opset_import[0].version >= 17
    onnx.checker.check_model(model)


@pytest.mark.slow
def test_half_precision_is_near_and_says_so(file, tmp_path):
    torch.manual_seed(1)
    larger = Generator(64, style_dim=16, num_mlp_layers=2, channel_multiplier=1, narrow=1 / 16).eval()
    half = export_generator(larger, file, tmp_path / "half.onnx", ExportOptions(precision="fp16"), CPU, **RESTORING)
    assert 0 < half.max_difference < export.MAX_DIFFERENCE["fp16"]
    assert half.metadata["gpen.precision"] == "fp16"


def test_the_engine_restores_a_photo_with_it(onnx_path, astronaut, generator):
    restorer = Restorer(
        runtime=RuntimeOptions(weights=str(onnx_path), batch_size=2), detector=FakeDetector(frontal_face(224, 102, 50))
    )
    result = restorer.restore(astronaut)
    assert result.num_shown == 1
    assert (result.model, result.device, result.precision) == ("starter-256", "cpu (onnxruntime)", "fp32")
    assert restorer.model_sha256 == "ab" * 32
    crop = result.faces[0].crop.pixels
    x = torch.from_numpy(crop.copy()).permute(2, 0, 1)[None].float() / 127.5 - 1
    with torch.no_grad():
        wanted = ((generator(x) + 1) * 127.5).round().clamp(0, 255)[0].permute(1, 2, 0).numpy()
    assert np.abs(result.faces[0].restored.astype(float) - wanted).max() <= 1


def test_the_engine_takes_many_crops_in_batches_and_names_broken_ones(onnx_path, monkeypatch):
    engine = OnnxEngine(onnx_path, RuntimeOptions(batch_size=2, precision="fp16", compile=True))
    heard = []
    crops = [np.full((32, 32, 3), 40 * k, np.uint8) for k in range(5)]
    answer = engine.restore_crops(crops, heard.append, RestoreOptions(tile_px=64))
    assert any("untiled" in note for note in answer.notes)
    assert len(answer.crops) == 5
    assert [step.done for step in heard] == [0, 2, 4, 5]
    assert any("fp16" in note for note in answer.notes) and any("compiled" in note for note in answer.notes)
    monkeypatch.setattr(engine._session, "run", lambda *_: [np.full((1, 3, 32, 32), np.nan, np.float32)])
    assert engine.restore_crops([np.zeros((32, 32, 3), np.uint8)], heard.append).crops == (None,)


def test_the_command_restores_by_it_without_torch(onnx_path, tmp_path, examples):
    """At scale 2 too, where the background's upscaler, which is torch's, is missed and named."""
    code = "import sys; sys.modules['torch'] = sys.modules['torchvision'] = None\nfrom gpen_core import cli; cli.main()"
    arguments = ["--weights", onnx_path, "-i", examples / "group.jpg", "-o", tmp_path / "out.png", "--scale", "2"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "3 of 3 faces restored" in done.stdout
    assert "upscalers need torch" in done.stdout
    with Image.open(tmp_path / "out.png") as result:
        assert result.size == (2400, 1560)


def test_files_of_others_and_broken_ones_are_refused(tmp_path):
    import onnx
    from onnx import TensorProto, helper

    tensor = helper.make_tensor_value_info("input", TensorProto.FLOAT, [1])
    out = helper.make_tensor_value_info("output", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["input"], ["output"])], "other", [tensor], [out])
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), tmp_path / "other.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    for name, words in (("other.onnx", "did not write"), ("broken.onnx", "could not be read"), ("none.onnx", "could")):
        with pytest.raises(WeightsError, match=words):
            OnnxEngine(tmp_path / name, RuntimeOptions())
    with pytest.raises(DeviceError, match="CPU only"):
        OnnxEngine(tmp_path / "other.onnx", RuntimeOptions(device="cuda"))


def test_nothing_is_overwritten_or_left_half_written(generator, file, tmp_path, monkeypatch):
    (tmp_path / "there.onnx").write_bytes(b"mine")
    for name, words in (("there.onnx", "exists"), ("model.pt2", "does not end"), ("none/model.onnx", "no folder")):
        with pytest.raises(OptionError, match=words):
            export_generator(generator, file, tmp_path / name, ExportOptions(), CPU, **RESTORING)
    assert (tmp_path / "there.onnx").read_bytes() == b"mine"
    monkeypatch.setattr(export, "_write_onnx", lambda network, path: path.write_bytes(b"half"))
    monkeypatch.setattr(export, "run_onnx", lambda path: lambda x: x * float("nan"))
    with pytest.raises(WeightsError, match="nothing was written"):
        export_generator(generator, file, tmp_path / "new.onnx", ExportOptions(), CPU, **RESTORING)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there.onnx"]


def test_bf16_is_not_for_onnx():
    with pytest.raises(OptionError, match="bf16"):
        ExportOptions(precision="bf16")


@pytest.mark.slow
def test_the_command_exports_the_starter(tmp_path, capsys):
    path = tmp_path / "starter.onnx"
    with pytest.raises(SystemExit) as done:
        cli.main(["export", "--model", "starter-256", "-o", str(path)])
    assert done.value.code == 0
    told = capsys.readouterr().out
    assert "CC0-1.0" in told and str(path) in told
    assert 30e6 < path.stat().st_size < 33e6


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="a package is compiled with g++, which is not here")
def test_a_package_compiled_ahead_of_time_computes_the_same(generator, file, tmp_path):
    options = ExportOptions(format="aoti")
    exported = export_generator(generator, file, tmp_path / "small.pt2", options, CPU, **RESTORING)
    assert exported.max_difference < 1e-4
    package = torch._inductor.aoti_load_package(str(exported.path))
    assert package.get_metadata()["gpen.model"] == "starter-256"
