from dataclasses import fields, replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_item import made_item

from medvl.benchmark.item import ITEM_SCHEMA, LETTERS, META_FIELDS, Item, frame_to_items, items_to_frame
from medvl.sources.record import Domain, Split, Task

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

ITEMS = st.builds(
    Item,
    item_id=TEXT,
    picture=TEXT,
    sha256_pixels=TEXT,
    width=st.integers(1, 9000),
    height=st.integers(1, 9000),
    task=st.sampled_from(Task),
    question=TEXT,
    options=st.lists(TEXT, min_size=2, max_size=4).map(tuple),
    answer_index=st.integers(0, 1),
    raw_label=TEXT,
    answer=TEXT,
    group=TEXT,
    source=TEXT,
    domain=st.sampled_from(Domain),
    split=st.sampled_from(Split),
    frame=st.none() | st.integers(0, 99),
    generic_plane=st.booleans(),
    polarity=st.none() | st.booleans(),
    labels=st.lists(TEXT, max_size=3).map(tuple),
    bbox_xyxy_px=st.none() | st.tuples(*[st.floats(0, 9000)] * 4),
    area_share=st.none() | st.floats(0, 1),
    tier=st.none() | st.sampled_from(["small", "large"]),
    constant_answer=st.booleans(),
    meta=st.fixed_dictionaries(dict.fromkeys(META_FIELDS, TEXT)),
)


@given(st.lists(ITEMS, max_size=4))
def test_items_survive_the_table(items):
    assert frame_to_items(items_to_frame(items)) == items


def test_the_table_has_exactly_the_columns_of_the_schema_even_when_empty():
    for items in ([], [made_item()]):
        frame = items_to_frame(items)
        assert dict(frame.schema) == dict(pl.Schema(ITEM_SCHEMA))
    assert set(ITEM_SCHEMA) == {f.name for f in fields(Item)}


def test_unknown_facts_become_empty_text():
    (read,) = frame_to_items(items_to_frame([made_item(meta={"sex": "f"})]))
    assert read.meta == {**dict.fromkeys(META_FIELDS, ""), "sex": "f"}


def test_a_box_of_whole_numbers_is_stored_like_any_other():
    (read,) = frame_to_items(items_to_frame([made_item(task=Task.VG, bbox_xyxy_px=(1, 2, 3, 4))]))
    assert read.bbox_xyxy_px == (1.0, 2.0, 3.0, 4.0)


def test_letters_follow_the_options():
    item = made_item()
    assert item.letters == "ABC"
    assert item.answer_letter == LETTERS[item.answer_index] == "B"


@pytest.mark.parametrize(
    "change",
    [
        {"sha256_pixels": "cd" * 32},
        {"question": "What?"},
        {"answer_index": 0},
        {"options": ("fetal thorax plane", "fetal head plane", "μ-plane")},
        {"bbox_xyxy_px": (4.0, 6.0, 20.5, 31.0)},
        {"frame": 3},
    ],
)
def test_the_fingerprint_changes_with_what_is_asked(change):
    item = made_item(task=Task.VG)
    assert replace(item, **change).fingerprint() != item.fingerprint()


@pytest.mark.parametrize(
    "change", [{"split": Split.TEST}, {"group": "s:p2"}, {"picture": "t.png"}, {"bbox_xyxy_px": (4, 6, 20.5, 30)}]
)
def test_the_fingerprint_keeps_still_for_the_rest(change):
    item = made_item(task=Task.VG)
    assert replace(item, **change).fingerprint() == item.fingerprint()
