from __future__ import annotations

import numpy as np
import pytest

from gpen_core.errors import OptionError
from gpen_core.faces.select import skip_reasons
from gpen_core.options import RestoreOptions
from tests.fakes import face_at, frontal_face

FACES = [frontal_face(100, 100, 20), frontal_face(300, 200, 60), frontal_face(460, 220, 40), frontal_face(590, 50, 5)]
PROFILE = face_at(np.array([(222, 101), (228, 103), (226, 127), (244, 141), (206, 142)], float))


def kept(found=FACES, /, **options) -> list[int]:
    reasons = skip_reasons(found, RestoreOptions(**options), 600, 400)
    return [index for index, reason in enumerate(reasons) if not reason]


def test_all_but_those_too_small():
    assert kept() == [0, 1, 2]
    assert kept(min_face_px=1) == [0, 1, 2, 3]
    assert kept(min_face_px=80) == [1, 2]
    reasons = skip_reasons(FACES, RestoreOptions(), 600, 400)
    assert "too small" in reasons[3]
    assert "16 px" in reasons[3]


def test_words_and_numbers_choose():
    assert kept(faces="largest") == [1]
    assert kept(faces="center") == [1]
    assert kept(faces="0") == [0]
    assert kept(faces=" 2, 0 ") == [0, 2]
    assert kept(faces="3") == []
    assert "not selected" in skip_reasons(FACES, RestoreOptions(faces="largest"), 600, 400)[0]


def test_a_number_that_does_not_exist_is_an_error():
    with pytest.raises(OptionError, match=r"no face 7: 4 were found"):
        kept(faces="7")
    assert kept([], faces="7") == []


def test_the_largest_are_taken_where_there_are_too_many():
    assert kept(max_faces=2) == [1, 2]
    assert kept(max_faces=1) == [1]


def test_a_profile_is_left_alone_with_a_reason():
    reasons = skip_reasons([PROFILE], RestoreOptions(), 600, 400)
    assert "from the front" in reasons[0]
