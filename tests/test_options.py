from __future__ import annotations

import pytest

from gpen_core.errors import OptionError
from gpen_core.options import OutputOptions, RestoreOptions, RuntimeOptions, allowed, default


@pytest.mark.parametrize(
    ("options", "values", "words"),
    [
        (RestoreOptions, {"strength": 1.5}, ("strength", "1.5", "0 to 1")),
        (RestoreOptions, {"strength": -0.1}, ("strength", "-0.1")),
        (RestoreOptions, {"strength": float("nan")}, ("strength", "nan")),
        (RestoreOptions, {"strength": "1"}, ("strength", "'1'", "or auto")),
        (RestoreOptions, {"scale": 4.5}, ("scale", "4.5", "1 to 4")),
        (RestoreOptions, {"mode": "all"}, ("mode", "faces, whole, both")),
        (RestoreOptions, {"background": "esrgan"}, ("background", "realesrnet-x2")),
        (RestoreOptions, {"faces": "biggest"}, ("faces", "biggest", "largest")),
        (RestoreOptions, {"faces": "1,-2"}, ("faces", "1,-2")),
        (RestoreOptions, {"threshold": 1.0}, ("threshold", "0.99")),
        (RestoreOptions, {"tile_px": 100}, ("tile_px", "100", "auto, 0, 16, 32")),
        (RestoreOptions, {"tile_px": 256, "overlap_px": 200}, ("overlap_px", "200", "half")),
        (RestoreOptions, {"overlap_px": "all"}, ("overlap_px", "'all'", "or auto")),
        (RestoreOptions, {"template": "arcface"}, ("template", "ffhq")),
        (RuntimeOptions, {"model": "gfpgan"}, ("model", "gpen-bfr-512")),
        (RuntimeOptions, {"device": "gpu"}, ("device", "gpu", "cuda")),
        (RuntimeOptions, {"precision": "int8"}, ("precision", "fp16")),
        (RuntimeOptions, {"batch_size": 0}, ("batch_size", "0", "64")),
        (RuntimeOptions, {"unload_after_s": -1}, ("unload_after_s", "-1", "0 to 86400")),
        (OutputOptions, {"quality": 0}, ("quality", "100")),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(options, values, words):
    with pytest.raises(OptionError) as caught:
        options(**values)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_right_values_pass():
    options = RestoreOptions(strength=0, scale=4, faces="0, 12", tile_px=512, overlap_px=256)
    assert options.face_numbers == (0, 12)
    assert RestoreOptions().face_numbers is None
    assert RestoreOptions(strength="auto").strength == "auto"
    RestoreOptions(tile_px="auto", overlap_px=8)
    RestoreOptions(tile_px=0, overlap_px=1024)
    RuntimeOptions(device="cuda:3", precision="bf16")


def test_options_cannot_be_changed_afterwards():
    with pytest.raises(AttributeError):
        RestoreOptions().strength = 0.5


def test_defaults_lie_within_their_own_bounds():
    for options in (RestoreOptions, RuntimeOptions, OutputOptions):
        options()
    assert default(RestoreOptions, "strength") == allowed(RestoreOptions, "strength").maximum
