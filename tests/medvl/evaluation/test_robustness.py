import json

import numpy as np
import pytest
from asked_variants import always_a, item, right, varied

from medvl.errors import DataError
from medvl.evaluation.robustness import robustness
from medvl.sources.record import Task

ITEMS = [item(f"p{n}", n % 4, 4, f"g{n}") for n in range(8)] + [
    item(f"v{n}", n % 2, 2, f"g{n}", task=Task.VC) for n in range(4)
]
BOUND = item("b", options=("head", "femur", "Both A and B", "none of these"), answer="head", task=Task.CD)


def content(**models):
    prints = {name: {"base": name} for name in models}
    return robustness(models, split="test", scoring="letter", asked={"rotations": True}, fingerprints=prints)


def asked(answer, items=ITEMS, **ways):
    return varied(items, answer, **ways)


def test_one_model_has_a_cell_for_each_task_and_for_all_and_no_difference():
    result = content(zero_shot=asked(right, paraphrases=2))
    assert (result["n"], result["split"], result["scoring"]) == (12, "test", "letter")
    assert (result["asked"], result["difference"]) == ({"rotations": True}, None)
    model = result["models"]["zero_shot"]
    assert model["fingerprints"] == {"base": "zero_shot"}
    assert list(model["tasks"]) == ["PI", "VC"]
    assert [cell["n_asked"] for cell in (*model["tasks"].values(), model["overall"])] == [64, 16, 80]
    for cell in (*model["tasks"].values(), model["overall"]):
        assert cell["rotations"]["circular_accuracy"] == cell["paraphrases"]["all_right"] == 1
        assert cell["variants"]["flip_rate_items"] == cell["variants"]["flip_rate_variants"] == 0
        assert cell["top_letter"]["one_letter"] is False
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_a_model_that_always_says_a_is_flagged_and_has_nothing_right_in_all_rotations():
    cell = content(zero_shot=asked(always_a))["models"]["zero_shot"]["tasks"]["PI"]
    assert cell["top_letter"] == {"letter": "A", "share": 1, "one_letter": True}
    assert cell["letters"]["gold"] == dict.fromkeys("ABCD", 8)
    assert cell["letters"]["predicted"] == {"A": 32, "B": 0, "C": 0, "D": 0, "invalid": 0}
    turned = cell["rotations"]
    assert (turned["accuracy"], turned["circular_accuracy"], turned["flip_rate_items"]) == (1 / 4, 0, 1)
    assert turned["circular_ci95"][1] > 0
    assert turned["recall_std"] == pytest.approx(np.std([1, 0, 0, 0]))


def test_what_changes_with_the_words_only_is_seen_in_the_words_only():
    def answer(variant):
        return variant.item.answer_letter if variant.paraphrase != 1 else None

    cell = content(zero_shot=asked(answer, paraphrases=3))["models"]["zero_shot"]["overall"]
    assert cell["rotations"]["consistency"] == 1
    assert (cell["paraphrases"]["consistency"], cell["paraphrases"]["flip_rate_variants"]) == (0, 1 / 2)
    assert [row["accuracy"] for row in cell["paraphrases"]["by_paraphrase"]] == [1, 0, 1]
    assert [(row["paraphrase"], row["n"], row["n_asked"]) for row in cell["paraphrases"]["by_paraphrase"]] == [
        (number, 12, 40) for number in range(3)
    ]


def test_what_was_not_asked_is_null():
    rotated = content(zero_shot=asked(right))["models"]["zero_shot"]["overall"]
    assert rotated["paraphrases"] is None
    worded = content(
        zero_shot=asked(right, rotations=False, paraphrases=2), fine_tuned=asked(right, rotations=False, paraphrases=2)
    )
    assert worded["models"]["zero_shot"]["overall"]["rotations"] is None
    assert worded["difference"] is None


def test_options_that_keep_their_order_are_left_out_of_the_figures_over_rotations():
    result = content(zero_shot=asked(right, [*ITEMS, BOUND]), fine_tuned=asked(right, [*ITEMS, BOUND]))
    model = result["models"]["zero_shot"]
    assert (model["overall"]["n"], model["overall"]["rotations"]["n"]) == (13, 12)
    assert (model["tasks"]["CD"]["rotations"], model["tasks"]["CD"]["variants"]) == (None, None)
    assert list(result["difference"]["tasks"]) == ["PI", "VC"]


def test_the_difference_pairs_circular_accuracy_item_by_item():
    def after(variant):
        return variant.item.answer_letter if variant.base_id in ("p0", "p1", "v0") else "A"

    result = content(zero_shot=asked(always_a), fine_tuned=asked(after, ITEMS[::-1]))["difference"]
    assert result["overall"]["estimate"] == pytest.approx(3 / 12)
    assert (result["overall"]["gained"], result["overall"]["lost"]) == (3, 0)
    assert result["tasks"]["PI"]["estimate"] == pytest.approx(2 / 8)
    assert result["tasks"]["VC"]["p_holm"] >= result["tasks"]["VC"]["p"]


def test_models_that_were_asked_different_variants_are_refused():
    with pytest.raises(DataError, match="fine_tuned has other variants"):
        content(zero_shot=asked(right), fine_tuned=asked(right, ITEMS[:-1]))


def test_another_split_is_refused():
    rows = asked(right)
    with pytest.raises(DataError, match="split 'val'"):
        robustness({"zero_shot": rows}, split="val", scoring="letter", asked={}, fingerprints={"zero_shot": {}})
