import io

import pytest
from asked_variants import always_a, item, right, varied
from rich.console import Console

from medvl.evaluation.robustness import robustness
from medvl.reporting.robustness_table import robustness_table
from medvl.sources.record import Task

ITEMS = [
    item(f"{task}{n}", n % k, k, f"g{n}", task=task)
    for task, k in ((Task.PI, 4), (Task.VC, 2), (Task.FO, 4)) for n in range(8)
]  # fmt: skip


def printed(models, rotations=True, paraphrases=1):
    ways = {"rotations": rotations, "paraphrases": paraphrases}
    tables = {name: varied(ITEMS, answer, **ways) for name, answer in models.items()}
    prints = {name: {} for name in models}
    content = robustness(tables, split="test", scoring="letter", asked=ways, fingerprints=prints)
    stream = io.StringIO()
    Console(file=stream, width=80).print(robustness_table(content))
    text = stream.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    return [line.split() for line in text.splitlines()], " ".join(text.split())


def test_one_model_has_a_row_a_task():
    rows, text = printed({"zero_shot": right}, paraphrases=2)
    assert "test split, letter scoring, all rotations in 2 wordings" in text
    assert ["PI", "8", "1.000", "1.000", "1.000", "1.000", "1.000", "0.000"] in rows
    assert ["overall", "24", "1.000", "1.000", "1.000", "1.000", "1.000", "0.000"] in rows
    assert "zero-shot 0.000 of items, 0.000 of variants" in text
    assert "Always one letter" not in text


def test_two_models_stand_under_each_other_with_their_difference():
    rows, text = printed({"zero_shot": always_a, "fine_tuned": right})
    assert ["PI", "zero-", "8", "0.250", "0.250", "0.000", "0.000", "-", "0.433"] in rows
    assert ["fine-", "8", "1.000", "1.000", "1.000", "1.000", "-", "0.000"] in rows
    assert sum(row[:2] == ["differ-", "+1.000"] for row in rows) == 4
    assert "Always one letter, whatever is shown: zero-shot PI (A, 100%), zero-shot VC (A, 100%)" in text


@pytest.mark.parametrize("models", [{"zero_shot": right}, {"zero_shot": always_a, "fine_tuned": right}])
def test_without_rotations_their_columns_are_empty(models):
    rows, text = printed(models, rotations=False, paraphrases=2)
    assert "letter scoring, 2 wordings" in text
    assert any(row[-6:] == ["1.000", "-", "-", "-", "1.000", "-"] for row in rows)
    assert not any(row[:1] == ["differ-"] for row in rows)
