import json

import pytest
from drawn_source import drawn_source
from made_item import made_item

from medvl.benchmark.card import PUBLISHED_TOTALS, SourceRow, build_card
from medvl.sources.record import Domain, Split, Task


@pytest.fixture
def card():
    items = [
        made_item("1"),
        made_item("2", picture="s/1.png", task=Task.VG, split=Split.TEST, area_share=0.1, tier="medium"),
        made_item("3", split=Split.TEST, group="s:p2", domain=Domain.PHANTOM, answer_index=0, constant_answer=True),
        made_item("4", task=Task.VG, split=Split.VAL, group="s:p3", area_share=0.4, tier="large"),
    ]
    rows = [SourceRow("s", found=True, listed=9, absent=2), SourceRow("t", why_absent="no copy")]
    sources = {"s": drawn_source("s", [], is_redistributable=False), "t": drawn_source("t", [])}
    return build_card("b", items, rows, sources, {"seed": 0}, [{"kind": "near", "correlation": 0.912}], "abc")


def test_a_source_is_counted_by_pictures_items_splits_and_groups(card):
    entry = card["sources"]["s"]
    assert (entry["pictures"], entry["items"]) == (3, 4)
    assert entry["splits"] == {"train": 1, "val": 1, "test": 2}
    assert entry["groups"] == {"train": 1, "val": 1, "test": 2}
    assert entry["phantom_share"] == pytest.approx(1 / 3)
    assert entry["constant_answer"] == ["PI"]
    assert entry["redistributable"] is False
    assert (entry["listed"], entry["absent"]) == (9, 2)


def test_an_absent_source_stays_in_the_table(card):
    entry = card["sources"]["t"]
    assert (entry["found"], entry["items"], entry["phantom_share"]) == (False, 0, None)
    assert entry["why_absent"] == "no copy"


def test_the_cells_add_up_to_the_items(card):
    assert sum(cell["items"] for cell in card["counts"]) == card["totals"]["items"] == 4
    assert sum(sum(letters.values()) for letters in card["gold_letters"].values()) == 4
    assert sum(sum(answers.values()) for answers in card["answers"].values()) == 4
    assert card["gold_letters"]["PI"] == {"A": 1, "B": 1}


def test_totals_stand_beside_the_published_ones(card):
    assert set(card["totals"]) == set(card["published_totals"]) == set(PUBLISHED_TOTALS)
    assert card["totals"] == {"pictures": 3, "items": 4, "vg_test_items": 1, "sources": 1}


def test_terciles_are_of_the_boxes_only(card):
    assert card["area_share_terciles"] == pytest.approx([0.2, 0.3])
    without = build_card("b", [made_item()], [], {}, {}, [], "abc")
    assert without["area_share_terciles"] is None


def test_leaks_are_listed(card):
    assert card["leak_pairs"] == 1
    assert card["leaks"] == [{"kind": "near", "correlation": 0.912}]


def test_a_card_is_plain_json(card):
    assert json.loads(json.dumps(card, allow_nan=False)) == card
