"""Whatever comes in, out comes a photo or one of our errors. `benchmarks/fuzz.py` tries ten thousand files."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.mutations import check, mutate, seeds
from gpen_core.errors import GpenError, OptionError
from gpen_core.options import BatchOptions, OutputOptions, RestoreOptions, RuntimeOptions
from gpen_core.photo.io import read_photo
from gpen_core.photo.metadata import marked_xmp, xmp_to_keep

SEEDS = seeds()
QUIET = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


@pytest.mark.parametrize("name", SEEDS)
def test_the_files_that_are_broken_are_whole_to_begin_with(name):
    assert max(read_photo(SEEDS[name]).pixels.shape) == 24


@settings(max_examples=40, **QUIET)
@given(name=st.sampled_from(sorted(SEEDS)), other=st.sampled_from(sorted(SEEDS)), seed=st.integers(0, 2**32))
def test_broken_files_are_read_or_refused(name, other, seed, tmp_path_factory):
    check(mutate(SEEDS[name], random.Random(seed), SEEDS[other]), tmp_path_factory.getbasetemp())


@settings(max_examples=40, **QUIET)
@given(head=st.sampled_from([b"", *(content[:16] for content in SEEDS.values())]), body=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(head, body, tmp_path_factory):
    check(head + body, tmp_path_factory.getbasetemp())


@settings(max_examples=40, **QUIET)
@given(text=st.text(max_size=80) | st.binary(max_size=80))
def test_any_xmp_can_be_marked(text):
    assert b"compositeWithTrainedAlgorithmicMedia" in marked_xmp(xmp_to_keep(text))


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sampled_from(["auto", "all", "0,1", "png", "soft", "1e9", "0x10", "٣"]),
)


@settings(max_examples=80, **QUIET)
@given(data=st.data())
def test_options_are_taken_or_refused(data):
    options = data.draw(st.sampled_from([RestoreOptions, RuntimeOptions, OutputOptions, BatchOptions]))
    names = [field.name for field in dataclasses.fields(options)]
    given_values = data.draw(st.dictionaries(st.sampled_from(names), ANYTHING, max_size=3))
    try:
        options(**given_values)
    except OptionError as error:
        assert "\n" not in str(error) or "\n" in repr(given_values)


@settings(max_examples=40, **QUIET)
@given(
    shape=st.lists(st.integers(0, 6), max_size=4),
    kind=st.sampled_from(["u1", "<u2", ">u2", "f2", "f4", "f8", "?", "i4", "c8", "S3"]),
)
def test_any_array_is_read_or_refused(shape, kind):
    try:
        photo = read_photo(np.zeros(shape, kind))
    except GpenError:
        return
    assert photo.pixels.shape[:2] == tuple(shape[:2])
