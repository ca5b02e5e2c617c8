import io

import pytest
from mini_items import make_item
from rich.console import Console

from medvl.answering.prediction import Prediction, Scoring, predictions_to_frame
from medvl.benchmark.item import items_to_frame
from medvl.evaluation.candidates import candidates
from medvl.evaluation.scored import score_predictions
from medvl.reporting.candidates_table import candidates_table, candidates_task_table
from medvl.sources.record import Split, Task

ITEMS = [
    make_item(
        task,
        item_id=f"{task}{n}",
        sha256_pixels=f"{task}{n}",
        options=("w", "x", "y", "z"),
        answer_index=n % 4,
        answer="wxyz"[n % 4],
        group=f"g{n}",
        split=Split.TEST,
    )
    for task in (Task.PI, Task.FO)
    for n in range(12)
]


def model(right=0, silent=0):
    """A model that is right on so many items of each task and silent on so many others."""

    def said(number, item):
        letters = "ABCD"[item.answer_index], "ABCD"[(item.answer_index + 1) % 4]
        return None if number % 12 >= 12 - silent else letters[number % 12 >= right]

    answers = [
        Prediction(item.item_id, item.fingerprint(), said(number, item), (), None, "", "argmax", Scoring.LETTER, 0.0)
        for number, item in enumerate(ITEMS)
    ]
    return score_predictions(items_to_frame(ITEMS), predictions_to_frame(answers))


def printed(baseline, recipes, about=None):
    """Both tables: rows as words, and the whole text."""
    runs = {
        name: [{"label": f"{name}{i or ''}", "seed": i} for i in range(len(tables))] for name, tables in recipes.items()
    }
    about = about or {"label": "zero-shot", "fingerprints": {}}
    content = candidates(baseline, recipes, split="test", scoring="letter", about=about, runs=runs)
    texts = []
    for table in (candidates_table(content), candidates_task_table(content)):
        stream = io.StringIO()
        Console(file=stream, width=80).print(table)
        assert max(map(len, stream.getvalue().splitlines())) <= 80
        assert "…" not in stream.getvalue()
        texts.append(stream.getvalue())
    return [[line.split() for line in text.splitlines()] for text in texts], [" ".join(t.split()) for t in texts]


def test_the_baseline_stands_first_then_the_candidates_best_first():
    recipes = {"weak": [model(3)], "strong": [model(12), model(9)]}
    (rows, _), (text, _) = printed(model(3), recipes)
    assert "test split, letter scoring: against zero-shot" in text
    assert ["zero-shot", "0.250", "0.250"] in rows
    assert rows.index(["weak", "0", "0.250", "0.250", "0.000", "1.000"]) > 0
    (strong,) = [row for row in rows if row[:1] == ["strong"]]
    assert strong[1:6] == ["0,", "1", "0.875", "0.875", "+0.625"]
    assert rows.index(strong) < rows.index(["weak", "0", "0.250", "0.250", "0.000", "1.000"])
    assert "strong1 ± 0.177 ± 0.177" in text
    assert "adjusted by Holm over the candidates (2)" in text
    assert "24 items of 12 groups" in text


def test_each_task_has_the_baseline_and_every_candidate():
    (_, rows), (_, text) = printed(model(3), {"a": [model(12), model(9)], "b": [model(6)]})
    assert ["PI", "zero-shot", "12", "0.250"] in rows
    assert ["FO", "zero-shot", "12", "0.250"] in rows
    assert sum(row[:3] == ["b", "0.500", "+0.250"] for row in rows) == 2
    assert sum(row[:3] == ["a", "0.875", "+0.625"] for row in rows) == 2
    assert "p adjusted by Holm over the whole table (4)" in text
    assert "No items: VC, CD, VG." in text


def test_answers_that_count_as_wrong_are_named_where_there_are_any():
    _, (text, _) = printed(model(3), {"a": [model(3, silent=6)]})
    assert "Counted as wrong: a 0.500 invalid." in text
    _, (text, _) = printed(model(3), {"a": [model(3)]})
    assert "No answer was invalid or uncommitted." in text


def test_a_thought_left_empty_is_in_the_title():
    about = {"label": "base adapter", "fingerprints": {"thought": "left empty"}}
    _, (text, tasks) = printed(model(3), {"a": [model(3)]}, about=about)
    assert "thought left empty: against base adapter" in text
    assert "thought left empty: by task" in tasks


@pytest.mark.parametrize("label", ["a" * 70, "[bold]", "ü-2026-11-30_08-59-27_a_rather_long_name_of_a_run"])
def test_any_label_is_shown_as_it_is(label):
    _, texts = printed(model(3), {label: [model(12), model(9)], "b": [model(1)]})
    for text in texts:
        assert label in text.replace(" ", "") or label[:16] in text
