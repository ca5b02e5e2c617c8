from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvl.evaluation.box_size import TERCILES, area_curve, tercile_names, terciles


def boxes(build, areas, answers="A"):
    words = [
        {"task": "VG", "tier": "small", "area_share": float(a), "group": f"g{n // 2}"} for n, a in enumerate(areas)
    ]
    return build.scored([(answers[n % len(answers)], word) for n, word in enumerate(words)])


@pytest.mark.parametrize("model", ["before", "after"])
def test_terciles_equal_the_hand_counted_table(thirty, golden, as_number, model):
    result = terciles(thirty[model])
    for name, expected in golden("thirty_predictions")["expected"][model]["terciles"].items():
        for key, figure in expected.items():
            assert result[name][key] == pytest.approx(as_number(figure))
    assert result["lowest"]["area_share"] == pytest.approx([0.01, 0.03])
    assert result["highest"]["median_area_share"] == pytest.approx(0.135)


def test_rows_without_a_box_have_no_tercile(thirty):
    names = tercile_names(thirty["after"])
    assert names.is_null().to_list() == thirty["after"]["area_share"].is_null().to_list()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([None, 0.01, 0.02, 0.05, 0.1, 0.3, 0.9]), min_size=1, max_size=20))
def test_equal_boxes_are_never_parted_and_order_of_size_is_kept(areas):
    table = pl.DataFrame({"area_share": areas}, schema={"area_share": pl.Float64})
    named = [(area, name) for area, name in zip(areas, tercile_names(table), strict=True) if area is not None]
    ranked = sorted((area, TERCILES.index(name)) for area, name in named)
    for (a, first), (b, second) in pairwise(ranked):
        assert first <= second
        assert a < b or first == second


def test_terciles_hold_equal_numbers_when_sizes_differ(build):
    result = terciles(boxes(build, np.linspace(0.01, 0.9, 30)))
    assert [result[name]["n"] for name in TERCILES] == [10, 10, 10]


def test_one_size_of_box_fills_one_tercile(build):
    result = terciles(boxes(build, [0.2] * 4))
    assert {name: cell and cell["n"] for name, cell in result.items()} == {"lowest": 4, "middle": None, "highest": None}


def test_curve_has_ten_bins_of_equal_number_from_small_to_large(build):
    areas = np.random.default_rng(0).beta(1, 8, 400)
    scored = boxes(build, areas, answers="AB")
    curve = area_curve(scored)
    assert [point["n"] for point in curve] == [40] * 10
    medians = [point["median_area_share"] for point in curve]
    assert medians == sorted(medians)
    for left, right in pairwise(curve):
        assert left["area_share"][1] < right["area_share"][0]
    assert all(point["ci95"][0] <= point["accuracy"] <= point["ci95"][1] for point in curve)
    total = sum(point["n"] * point["accuracy"] for point in curve) / 400
    assert total == pytest.approx(scored["is_correct"].mean())


@pytest.mark.parametrize(("n", "bins"), [(1, 1), (59, 1), (60, 2), (299, 9), (300, 10), (900, 10)])
def test_a_bin_has_at_least_thirty_items(build, n, bins):
    assert len(area_curve(boxes(build, np.linspace(0.01, 0.9, n)))) == bins


def test_curve_of_one_size_is_one_point_and_without_boxes_absent(build):
    assert [point["n"] for point in area_curve(boxes(build, [0.2] * 100))] == [100]
    without = build.scored([("A", {})])
    assert area_curve(without) is None
    assert terciles(without) == dict.fromkeys(TERCILES)
    assert area_curve(without.clear()) is None
