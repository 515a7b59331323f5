from __future__ import annotations

import pytest
import torch

from benchmarks import measure
from benchmarks.measure import Duration, Spread, pair_ratios, time_in_turn


def test_ratios_are_of_neighbours_and_their_median_is_theirs():
    # The machine was ten times slower during the second pair: the ratio of medians would be 4.
    ratios = pair_ratios([3.0, 20.0, 4.0], [1.0, 10.0, 1.0])
    assert ratios.values == (3.0, 2.0, 4.0)
    assert (ratios.median, ratios.low, ratios.high) == (3.0, 2.0, 4.0)
    assert str(ratios) == "3.00 (2.00 to 4.00)"
    assert ratios.to_json() == {"median": 3.0, "low": 2.0, "high": 4.0, "values": [3.0, 2.0, 4.0]}


@pytest.mark.parametrize(("tops", "bottoms"), [([], []), ([1.0, 2.0], [1.0])])
def test_what_is_no_pairs_is_refused(tops, bottoms):
    with pytest.raises(ValueError, match=r"pairs|argument"):
        pair_ratios(tops, bottoms)


def test_contestants_run_in_turn_and_first_runs_do_not_count(monkeypatch):
    calls = []
    monkeypatch.setattr(measure.time, "perf_counter", lambda: float(len(calls)))
    monkeypatch.setattr(measure.time, "process_time", lambda: 2.0 * len(calls))
    durations = time_in_turn({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3, torch.device("cpu"))
    assert "".join(calls) == "aabb" + "ababab"
    assert durations == {"a": [Duration(1.0, 2.0)] * 3, "b": [Duration(1.0, 2.0)] * 3}


def test_the_spread_of_one_is_itself():
    assert (Spread((2.0,)).low, Spread((2.0,)).median, Spread((2.0,)).high) == (2.0, 2.0, 2.0)
