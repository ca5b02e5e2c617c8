import pytest
from pydantic import ValidationError

from medvl.benchmark.paraphrases import load_paraphrases
from medvl.config.asking import MOST_WORDINGS, EvalConfig


def test_the_default_scores_letters_and_keeps_answers():
    config = EvalConfig()
    assert config.scoring == "letter"
    assert config.reuse_answers
    assert config.shared_prefix


@pytest.mark.parametrize(
    "wrong",
    [{"scoring": "letters"}, {"max_new_tokens": 1}, {"batch_size": 0}, {"batch_tokens": 0}, {"controls": ["mirrored"]},
     {"paraphrases": 0}, {"paraphrases": MOST_WORDINGS + 1}, {"likelihood": "mean"}],
)  # fmt: skip
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError):
        EvalConfig(**wrong)


@pytest.mark.parametrize(("words", "expected"), [({}, False), ({"rotations": True}, True), ({"paraphrases": 2}, True)])
def test_further_ways_of_asking_are_off_unless_one_is_named(words, expected):
    assert EvalConfig(**words).asks_variants is expected


def test_as_many_wordings_can_be_asked_as_are_known():
    assert {len(templates) for templates in load_paraphrases().values()} == {MOST_WORDINGS}
