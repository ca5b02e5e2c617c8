import csv
import io

import pytest
from rich.console import Console
from written_run import ITEMS, write_answers, write_record

from medvl.reporting.leaderboard import boards, published_rows, run_rows
from medvl.reporting.leaderboard_output import as_csv, as_markdown, board_tables, published_table


@pytest.fixture
def rows(tmp_path):
    """Two runs on one benchmark, one of them with a base before it, and one on another."""
    first = write_record(
        tmp_path / "2026-01-01_00-00-00_fetal_gauge_lingshu_7b", model="lingshu_7b", note="chest X-ray"
    )
    write_answers(first / "zero_shot", 6)
    write_answers(first, 18, adapter="abcdef0123456789")
    second = write_answers(write_record(tmp_path / "second | run", model="tiny"), 12)
    third = write_answers(write_record(tmp_path / "third"), 9, benchmark="bench-2", items=ITEMS[:20])
    return run_rows([first, second, third])[0]


def shown(*tables, width=80):
    console = Console(file=io.StringIO(), width=width)
    for table in tables:
        console.print(table)
    return console.file.getvalue()


def test_tables_fit_80_columns_and_rank_within_a_board(rows):
    texts = [shown(*board_tables(board, members)) for board, members in boards(rows).items()]
    assert len(texts) == 2
    assert all(len(line) <= 80 for text in texts for line in text.splitlines())
    assert "benchmark bench-1, test split, 24 items" in texts[0]
    assert "benchmark bench-2, test split, 20 items" in texts[1]
    lines = texts[0].splitlines()
    order = [line.split()[:2] for line in lines if line[:1] in "123" and "letter" in line]
    assert order == [["1", "lingshu_7b"], ["2", "tiny"], ["3", "lingshu_7b"]]
    assert "adapter abcdef01" in texts[0]
    assert "chest X-ray" in texts[0]
    assert "0.750" in texts[0]


def test_the_published_table_says_that_it_is_of_other_items_and_what_is_unknown():
    text = shown(published_table(published_rows()))
    assert all(len(line) <= 80 for line in text.splitlines())
    flat = " ".join(text.split())
    assert "not the same items, so not ranked" in flat
    assert "Unknown of Llama-3.2-11B-Vision + LoRA, Qwen2.5-VL-7B + LoRA: rank, alpha" in flat
    assert "GPT-5 0.66 0.62 0.23 0.20 0.58 0.55 0.48 0.67 0.85" in flat


def test_csv_has_one_line_a_row_with_every_fact(rows):
    table = list(csv.DictReader(io.StringIO(as_csv([*rows, *published_rows()]))))
    assert [line["kind"] for line in table] == ["run"] * 4 + ["published"] * 9
    first = table[0]
    assert (first["rank"], first["benchmark"], first["n"], first["adapter"]) == ("1", "bench-1", "24", "abcdef01")
    assert (float(first["macro_accuracy"]), float(first["PI"])) == (0.75, 1.0)
    assert (first["sampled"], first["repeats"], first["training_data_note"]) == ("no", "1", "chest X-ray")
    assert [line["rank"] for line in table[:4]] == ["1", "2", "3", "1"]
    gpt5 = next(line for line in table if line["model"] == "GPT-5")
    assert (gpt5["rank"], gpt5["benchmark"], gpt5["macro_accuracy"], gpt5["clinical"]) == ("", "", "", "")
    assert (gpt5["accuracy"], gpt5["scoring"], gpt5["sampled"]) == ("0.55", "unknown", "unknown")
    assert "decoding" in gpt5["unknown"]


def test_markdown_has_a_heading_a_board_and_tables_of_even_width(rows):
    text = as_markdown([*rows, *published_rows()])
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert [heading.split(",")[0] for heading in headings[:2]] == ["## benchmark bench-1", "## benchmark bench-2"]
    assert headings[2] == "## Published with Fetal-Gauge (ICLR 2026): not the same items, so not ranked"
    for block in text.split("\n\n"):
        if block.startswith("| "):
            bars = {line.replace("\\|", "").count("|") for line in block.splitlines()}
            assert len(bars) == 1
    assert "second \\| run" in text
    assert "| GPT-5 | none | 0.55 | 0.66 |" in text


def test_a_further_task_has_a_column_of_its_own(tmp_path):
    from mini_items import make_item

    from medvl.sources.record import Split, Task

    items = [make_item(Task.FD, n, split=Split.TEST) for n in range(6)]
    chest = write_answers(write_record(tmp_path / "chest"), 3, items=items)
    rows = run_rows([write_answers(write_record(tmp_path / "fetal"), 6), chest])[0]
    table = {line["run"]: line for line in csv.DictReader(io.StringIO(as_csv(rows)))}
    assert (table["chest"]["FD"], table["fetal"]["FD"]) == ("0.5", "")
    assert "| VG | FD | small |" in as_markdown(rows)


def test_without_runs_there_is_the_published_part_alone_and_without_rows_nothing():
    assert as_markdown(published_rows()).startswith("## Published")
    assert as_markdown([]) == as_csv([]) == "\n"
