"""What leaked is said in sentences, shown in a table, listed in a file and laid out as pairs."""

import csv
import io

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from medvl.benchmark.leaks import LEAK_COLUMNS
from medvl.errors import DataError, StorageError
from medvl.reporting.leak_report import (
    MOST_SHEETS,
    SHEET_PAIRS,
    leak_sentences,
    leak_sheet,
    leak_table,
    ordered,
    write_leaks,
)

RED, BLUE = (200, 0, 0), (0, 0, 200)


def row(number=1, kind="near", done="dropped", correlation=0.9, **facts):
    made = {
        "kind": kind,
        "correlation": {"near": correlation, "identical": 1.0, "group": None}[kind],
        "done": done,
        "kept_source": "hc18",
        "kept_picture": f"hc18/kept_{number}.png",
        "kept_frame": None,
        "kept_split": "test",
        "copy_source": "mylab",
        "copy_picture": f"mylab/[copy] {number}.png",
        "copy_frame": None,
        "copy_split": "train",
        "dropped_items": [f"mylab-pi-{number}"] if done == "dropped" else [],
    }
    assert set(made) == set(LEAK_COLUMNS)
    return {**made, **facts}


def text_of(shown):
    console = Console(file=io.StringIO(), width=80)
    console.print(shown)
    return console.file.getvalue()


def load(picture, frame):
    return np.full((20, 30, 3), RED if "kept" in picture else BLUE, np.uint8)


def test_what_still_leaks_comes_first_and_doubtful_copies_before_sure_ones():
    rows = [
        row(1, "identical"),
        row(2, "near", correlation=0.95),
        row(3, "group"),
        row(4, "near", correlation=0.82),
        row(5, "group", done="left"),
        row(6, "near", done="moved"),
    ]
    assert [r["copy_picture"].split()[1].split(".")[0] for r in ordered(rows)] == ["5", "4", "2", "1", "3", "6"]


def test_the_table_names_source_picture_and_side_of_both_and_what_was_done():
    text = text_of(leak_table([row(), row(2, "group", done="left"), row(3, "identical", done="moved", kept_frame=7)]))
    for part in ("near copy 0.90", "dropped, 1 item", "test, hc18", "hc18/kept_1.png", "train, mylab", "[copy] 1.png"):
        assert part in text
    for part in ("shared group", "still leaks", "identical pixels", "moved with its", "kept_3.png#7"):
        assert part in text
    assert "more" not in text


def test_a_long_table_is_cut_and_says_how_much():
    text = text_of(leak_table([row(n) for n in range(1, 1235)], limit=3))
    assert "leaks: 1,234" in text
    assert "kept_3.png" in text
    assert "kept_4.png" not in text
    assert "and 1,231 more" in text


def test_sentences_count_pictures_by_kind_and_the_items_that_left():
    rows = [
        row(1),
        row(2, "identical", dropped_items=["a", "b"]),
        row(3, "group", done="moved"),
        row(4, "near", done="left"),
    ]
    assert list(leak_sentences(rows)) == [
        "leaks that are still there: 1 picture (near copy 1). Delete the benchmark, build it again.",
        "leaks that the build settled by dropping: 2 pictures with 3 items (near copy 1, identical pixels 1)",
        "leaks that the build settled by moving groups: 1 picture (shared group 1)",
    ]
    assert [sentence.split(":")[0] for sentence in leak_sentences([])] == ["no leaks"]


def test_the_file_holds_every_row_and_the_sheets_the_first_pairs(tmp_path):
    rows = [row(n) for n in range(1, SHEET_PAIRS * MOST_SHEETS + 10)]
    seen = []
    places, problems = write_leaks(tmp_path, rows, load, lambda *step: seen.append(step))
    assert problems == []
    table = list(csv.DictReader((tmp_path / "leaks.csv").read_text().splitlines()))
    assert list(table[0]) == ["number", *LEAK_COLUMNS]
    assert [line["number"] for line in table] == [str(n) for n in range(1, len(rows) + 1)]
    assert table[0]["kind"] == "near copy"
    assert table[0]["dropped_items"] == "mylab-pi-1"
    sheets = sorted(tmp_path.glob("*.png"))
    assert [sheet.name for sheet in sheets] == ["leaks-1.png", "leaks-2.png"]
    assert list(places.values()) == [str(tmp_path / "leaks.csv"), *map(str, sheets)]
    assert list(places)[2] == "pairs 25 to 48"
    assert seen[-1] == (SHEET_PAIRS * MOST_SHEETS, SHEET_PAIRS * MOST_SHEETS)
    with Image.open(sheets[0]) as image:
        assert image.mode == "RGB"


def test_a_later_check_leaves_nothing_of_an_earlier_one(tmp_path):
    write_leaks(tmp_path, [row(n) for n in range(30)], load)
    write_leaks(tmp_path, [row(n) for n in range(3)], load)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leaks-1.png", "leaks.csv"]
    assert write_leaks(tmp_path, [], load) == ({}, [])
    assert list(tmp_path.iterdir()) == []


def test_pictures_that_cannot_be_read_are_named_and_the_others_drawn(tmp_path):
    def load_some(picture, frame):
        if any(number in picture for number in ("_2", "_3", "_4")):
            raise DataError(f"{picture} is gone")
        return load(picture, frame)

    places, problems = write_leaks(tmp_path, [row(n) for n in range(1, 6)], load_some)
    assert problems == ["pair 2 is not drawn: hc18/kept_2.png is gone", "2 more pairs are not drawn"]
    assert list(places) == ["all leaks", "pairs 1 to 5"]


def test_without_a_data_root_the_file_is_written_and_the_option_named(tmp_path):
    places, (problem,) = write_leaks(tmp_path, [row()], None)
    assert list(places) == ["all leaks"]
    assert "--root" in problem


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "leaks.csv").mkdir()
    with pytest.raises(StorageError, match="cannot write the list of leaks to"):
        write_leaks(tmp_path, [row()], load)


def test_a_sheet_shows_pairs_side_by_side():
    pictures = (load("kept", None), load("copy", None))
    sheet = leak_sheet([(1, row(), *pictures), (2, row(2), *pictures), (3, row(3), *pictures)], cell_px=40)
    assert sheet.shape[1] == 4 * 40
    for column, colour in enumerate((RED, BLUE, RED, BLUE)):
        assert tuple(sheet[20, 20 + 40 * column]) == colour
    with pytest.raises(ValueError, match="expected pictures"):
        leak_sheet([])
