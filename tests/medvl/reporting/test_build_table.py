"""The tables before training say what is there, what is missing, and how often it will be seen."""

import io

from rich.console import Console

from medvl.batching.task_mix import Exposure
from medvl.reporting.build_table import exposure_table, reading_table, source_notes, sources_table

ENTRY = {
    "found": True,
    "listed": 10,
    "absent": 0,
    "unlabelled": 0,
    "broken": [],
    "leaked": 0,
    "warnings": [],
    "reading": {},
    "pictures": 10,
    "items": 1234,
    "splits": {"train": 1000, "val": 34, "test": 200},
    "groups": {"train": 5, "val": 1, "test": 2},
    "phantom_share": 0.25,
}
TOTALS = {"pictures": 10, "items": 1234, "vg_test_items": 3}
PUBLISHED = {"pictures": 42036, "items": 93451, "vg_test_items": 11332}


def _card(name="mine", **entries):
    return {"name": name, "sources": entries, "totals": TOTALS, "published_totals": PUBLISHED}


def _text(table):
    console = Console(file=io.StringIO(), width=80)
    console.print(table)
    return console.file.getvalue()


def test_a_source_has_its_counts_and_an_absent_one_says_so():
    text = _text(sources_table(_card(hc18=ENTRY, focus={"found": False, "why_absent": "get it"})))
    for part in ("hc18", "1,234", "1,000", "200", "8", "0.25", "focus", "not found"):
        assert part in text


def test_what_is_missing_is_said():
    partial = {**ENTRY, "absent": 4, "unlabelled": 2, "broken": ["x.png is cut"], "leaked": 1, "warnings": ["odd"]}
    notes = list(source_notes(_card(hc18=partial, focus={"found": False, "why_absent": "get it there"})))
    assert notes[0] == "hc18: partial copy, 6 of 10 listed pictures are here"
    text = "\n".join(notes)
    for part in (
        "2 pictures carry no label",
        "1 broken",
        "x.png is cut",
        "1 pictures dropped",
        "odd",
        "focus: get it there",
    ):
        assert part in text


def test_known_flaws_of_a_source_are_said():
    (note,) = source_notes(_card(focus={**ENTRY, "flaws": ["the patient is lost"]}))
    assert note == "focus, known flaw: the patient is lost"


def test_the_published_totals_stand_beside_the_benchmark_they_are_of_and_no_other():
    (note,) = source_notes(_card("fetal_gauge", hc18=ENTRY))
    assert "42,036" in note
    assert list(source_notes(_card(hc18=ENTRY))) == []


def test_exposure_counts_epochs():
    text = _text(exposure_table([Exposure("VG", 100, 40, 50, 0.5, 0.5)], epochs=3))
    assert "1.5 times" in text


def test_rules_of_reading_are_summed_over_sources():
    one, two = ({**ENTRY, "reading": reading} for reading in ({"grey": 1999, "exif turned": 2}, {"grey": 44}))
    lines = _text(reading_table(_card(hc18=one, mylab=two))).splitlines()
    (grey,) = (line for line in lines if "grey" in line)
    (turned,) = (line for line in lines if "exif turned" in line)
    assert "2,043" in grey
    assert "hc18 1,999, mylab 44" in grey
    assert "hc18 2" in turned


def test_nothing_is_shown_of_rules_that_touched_nothing():
    assert reading_table(_card(hc18=ENTRY)) is None
