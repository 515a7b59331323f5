"""What machines are told of the endpoints."""

from __future__ import annotations

import inspect

import pytest
from gradio.utils import get_function_description

from gpen_core.options import RestoreOptions, allowed
from page.api import Endpoints
from page.batch_api import Endpoint


@pytest.mark.parametrize(
    ("function", "own"),
    [(Endpoints.restore, "photo"), (Endpoint.restore_batch, "photos")],
    ids=["restore", "restore_batch"],
)
def test_every_parameter_is_described_by_its_option(function, own):
    description, parameters, _ = get_function_description(function)
    assert description.startswith("Restore the faces in") and "report" in description
    asked = set(inspect.signature(function).parameters) - {"self", "request", "progress"}
    assert {name for name in asked if not parameters[name]} == set()
    assert parameters["sharp_faces"] == allowed(RestoreOptions, "sharp_faces").help
    assert "HEIC" in parameters[own]
