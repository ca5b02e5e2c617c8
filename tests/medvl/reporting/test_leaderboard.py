import csv
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from written_run import ITEMS, write_answers, write_record

from medvl.errors import DataError
from medvl.evaluation.summary import TASK_ORDER
from medvl.reporting.leaderboard import boards, published_rows, ranks, run_rows

MODELS = Path(__file__).resolve().parents[3] / "conf" / "model"


@pytest.fixture
def trained(tmp_path):
    """A training run: the base before, the adapter after."""
    run = write_record(tmp_path / "trained", model="lingshu_7b", note="chest X-ray")
    write_answers(run / "zero_shot", 6)
    return write_answers(run, 18, adapter="abcdef0123456789")


def test_a_training_run_gives_a_row_of_the_adapter_and_one_of_the_base(trained):
    rows, remarks = run_rows([trained])
    assert remarks == []
    assert [(row.run, row.adapter) for row in rows] == [("trained", "abcdef01"), ("trained/zero_shot", "none")]
    assert {(row.model, row.training_data_note, row.asked) for row in rows} == {("lingshu_7b", "chest X-ray", "once")}
    after = rows[0]
    assert (after.accuracy, after.macro[0]) == (18 / 24, pytest.approx(0.75))
    assert after.macro[1] <= after.macro[0] <= after.macro[2]
    assert after.figures == {"PI": 1.0, "VG": 0.5, "clinical": 0.75}
    assert (after.invalid_rate, after.uncommitted_rate) == (0.0, 0.0)


def test_the_best_comes_first_and_equal_rows_share_a_place(trained, tmp_path):
    same = write_answers(write_record(tmp_path / "same"), 18, adapter="another")
    (board, rows), *others = boards(run_rows([trained, same])[0]).items()
    assert others == []
    assert (board.benchmark, board.split, board.n) == ("bench-1", "test", 24)
    assert [row.run for row in rows] == ["trained", "same", "trained/zero_shot"]
    assert ranks(rows) == [1, 1, 3]


@pytest.mark.parametrize(
    "words",
    [
        {"benchmark": "bench-2"},
        {"items": ITEMS[:20]},
        {"details": False},
        {"scoring": "generation"},
        {"picture_control": "blank"},
    ],
    ids=["benchmark", "fewer items", "items unknown", "scoring", "no pictures"],
)
def test_rows_that_are_not_about_the_same_items_in_the_same_way_are_not_ranked_together(trained, tmp_path, words):
    other = write_answers(write_record(tmp_path / "other"), 6, **words)
    found = boards(run_rows([trained, other])[0])
    assert sorted(len(rows) for rows in found.values()) == [1, 2]
    assert len({board.title for board in found}) == 2


def test_as_many_other_items_are_another_board(tmp_path):
    first = write_answers(write_record(tmp_path / "first"), items=ITEMS[:12])
    second = write_answers(write_record(tmp_path / "second"), items=ITEMS[12:])
    found = boards(run_rows([first, second])[0])
    assert [board.n for board in found] == [12, 12]


def test_the_same_evaluation_is_listed_once(trained, tmp_path):
    again = write_record(tmp_path / "again", model="lingshu_7b", note="chest X-ray")
    write_answers(again / "zero_shot", 6)
    write_answers(again, 12, adapter="fedcba")
    (tmp_path / "latest").symlink_to(again)
    rows, _ = run_rows([trained, again, tmp_path / "latest"])
    assert [row.run for row in rows] == ["trained", "trained/zero_shot", "again"]


@pytest.mark.parametrize("words", [{"base": "unknown"}, {"details": False}])
def test_rows_that_may_be_of_two_models_both_stay(tmp_path, words):
    runs = [write_answers(write_record(tmp_path / name), 6, **words) for name in ("one", "two")]
    assert len(run_rows(runs)[0]) == 2


def test_sampled_replies_of_one_model_are_two_rows_when_they_differ(tmp_path):
    facts = {"model": "gpt-5", "training_data_note": "unknown", "sampled": True, "repeats": 3}
    runs = [
        write_answers(write_record(tmp_path / f"run{right}", answered_by=facts), right, scoring="endpoint")
        for right in (6, 7)
    ]
    rows, _ = run_rows(runs)
    assert [(row.run, row.asked, row.scoring) for row in rows] == [
        ("run6", "3 times, sampled", "endpoint"),
        ("run7", "3 times, sampled", "endpoint"),
    ]


def test_answers_without_the_pictures_say_so(tmp_path):
    run = write_record(tmp_path / "run")
    write_answers(run / "controls" / "text_only", picture_control="text_only")
    (row,) = run_rows([run / "controls" / "text_only"])[0]
    assert (row.run, row.scoring) == ("run/controls/text_only", "letter, text only")


def test_a_thought_that_was_left_empty_is_said_but_still_ranked(trained, tmp_path):
    run = write_answers(write_record(tmp_path / "run"), thought="left empty")
    rows, _ = run_rows([trained, run])
    assert rows[-1].scoring == "letter, thought left empty"
    assert len(boards(rows)) == 1


def test_a_folder_without_a_record_is_of_an_unknown_model(tmp_path):
    (row,) = run_rows([write_answers(tmp_path / "bare")])[0]
    assert (row.run, row.model, row.asked) == ("bare", "unknown", "unknown")


def test_details_of_other_answers_do_not_say_which_items_these_are(trained):
    text = (trained / "details.json").read_text()
    (trained / "details.json").write_text(text.replace('"scoring": "letter"', '"scoring": "generation"'))
    assert [row.board.items == "" for row in run_rows([trained])[0]] == [True, False]


def test_folders_without_an_evaluation_are_named_and_absent_ones_refused(trained, tmp_path):
    (tmp_path / "failed").mkdir()
    rows, remarks = run_rows([trained, tmp_path / "failed"])
    assert len(rows) == 2
    assert remarks == ["left out, as neither metrics.json nor zero_shot/metrics.json is there: failed"]
    with pytest.raises(DataError, match=r"There is no folder .*nowhere"):
        run_rows([tmp_path / "nowhere"])


def test_a_damaged_file_is_named(trained):
    (trained / "metrics.json").write_text("{")
    with pytest.raises(DataError, match=r"metrics\.json is not a JSON file"):
        run_rows([trained])


def test_published_rows_are_the_papers():
    rows = published_rows()
    assert [row.model for row in rows][:3] == ["random guess", "GPT-5", "Lingshu-32B"]
    gpt5 = rows[1]
    assert gpt5.figures == {
        **{"PI": 0.66, "VC": 0.62, "FO": 0.23, "CD": 0.20, "VG": 0.58},
        **{"small": 0.48, "medium": 0.67, "large": 0.85},
    }
    assert (gpt5.accuracy, gpt5.board, gpt5.macro, gpt5.asked) == (0.55, None, None, "unknown")
    tuned = {row.model: row.accuracy for row in rows if row.adapter == "LoRA"}
    assert tuned == {"Llama-3.2-11B-Vision": 0.85, "Qwen2.5-VL-7B": 0.52}
    assert all(row.unknown for row in rows)
    assert all(set(row.figures) >= set(TASK_ORDER) for row in rows if row.adapter == "none")
    assert boards(rows) == {}


def test_published_vg_figures_are_means_over_their_box_sizes():
    """2,160 large, 1,799 medium and 7,373 small boxes."""
    counts = {"large": 2160, "medium": 1799, "small": 7373}
    sized = [row for row in published_rows() if "small" in row.figures]
    assert len(sized) == 3
    for row in sized:
        mean = sum(row.figures[name] * n for name, n in counts.items()) / sum(counts.values())
        assert mean == pytest.approx(row.figures["VG"], abs=0.01)


def test_training_data_of_published_models_is_what_their_options_say():
    with (files("medvl.reporting") / "published.csv").open() as file:
        lines = list(csv.DictReader(file))
    named = [line for line in lines if line["medvl_model"]]
    assert len(named) == len(lines) - 1
    for line in named:
        option = yaml.safe_load((MODELS / f"{line['medvl_model']}.yaml").read_text())
        assert line["training_data_note"] == option.get("training_data_note", "unknown")
