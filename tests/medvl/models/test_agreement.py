import pytest
import torch

from medvl.errors import ModelError
from medvl.models.agreement import agreement, option_logits
from medvl.models.agreement_questions import questions_of


def test_letters_that_differ_are_counted_and_the_largest_difference_is_kept():
    one = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 0.0, 1.0]), torch.tensor([0.0, 0.5])]
    other = [torch.tensor([1.0, 1.5]), torch.tensor([3.0, 0.0, 3.25]), torch.tensor([0.0, 0.5])]
    found = agreement(one, other)
    assert (found.questions, found.flips, found.largest_difference) == (3, 1, 2.25)
    assert found.share == pytest.approx(1 / 3)
    assert "1 of 3 letters differ (33.3%), logits by at most 2.2" in str(found)


def test_a_model_agrees_with_itself_also_where_options_tie():
    logits = [torch.zeros(4), torch.tensor([1.0, 1.0])]
    assert agreement(logits, [row.clone() for row in logits]).flips == 0


def test_nothing_to_compare_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="no questions"):
        agreement([], [])


def test_every_question_gets_the_logits_of_its_options(tiny_base, tmp_path):
    questions = questions_of(tmp_path, None, 9)
    seen = []
    logits = option_logits(tiny_base.model, tiny_base, questions, lambda done, n: seen.append((done, n)))
    assert [len(row) for row in logits] == [len(questions.samples[i].item.options) for i in range(9)]
    assert seen == [(8, 9), (9, 9)]
    assert agreement(logits, option_logits(tiny_base.model, tiny_base, questions)).largest_difference == 0


def test_numbers_that_overflow_are_refused_with_the_question(tiny_base, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "medvl.models.agreement.logits_at",
        lambda model, inputs, rows, picture_of: torch.full(
            (int(rows.sum()), len(tiny_base.processor.tokenizer)), float("inf")
        ),
    )
    with pytest.raises(ModelError, match=r"the logits of question P000_00 are not finite"):
        option_logits(tiny_base.model, tiny_base, questions_of(tmp_path, None, 2))
