import pytest
from pydantic import ValidationError

from medvl.config.asking import EvalConfig


def test_the_default_scores_letters_and_keeps_answers():
    config = EvalConfig()
    assert config.scoring == "letter"
    assert config.reuse_answers


@pytest.mark.parametrize(
    "wrong", [{"scoring": "letters"}, {"max_new_tokens": 1}, {"batch_size": 0}, {"controls": ["mirrored"]}]
)
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError):
        EvalConfig(**wrong)
