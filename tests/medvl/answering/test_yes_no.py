import pytest

from medvl.answering.yes_no import Asked, read_yes_no


def test_a_question_is_read_for_what_it_asks():
    asked = Asked.read("Is there no pleural effusion on the left side in this X-ray? Answer yes or no.")
    assert asked is not None
    assert {"pleural", "effusion"} <= asked.words
    assert (asked.sides, asked.denies, asked.verb, asked.soundness) == ({"left"}, True, False, 0)
    assert Asked.read("Is the lung normal?").soundness == 1
    assert Asked.read("Does it meet the standard?").verb
    assert Asked.read("Is there any?") is None
    assert Asked.read(None) is None


@pytest.mark.parametrize(
    ("text", "question", "answer", "rule"),
    [
        ("Yes, there is.", "Is there a nodule?", "yes", "leading"),
        ("I looked. No.", "Is there a nodule?", "no", "word"),
        ("My answer is yes", "Is there a nodule?", "yes", "declared"),
        ("Nodule: absent", "Is there a nodule?", "no", "labelled"),
        ("There is a nodule.", "Is there a nodule?", "yes", "statement"),
        ("The heart is enlarged.", "Is the heart enlarged?", "yes", "predicate"),
        ("It is not.", "Is the heart enlarged?", "no", "short_answer"),
        ("The X-ray is normal.", "Is there a nodule?", "no", "called_normal"),
        ("Yes, there is no nodule.", "Is there a nodule?", None, "contradiction"),
        ("Yes and no.", "Is there a nodule?", None, "two_picks"),
        ("I cannot tell.", "Is there a nodule?", None, "refusal"),
        ("There may be a nodule.", "Is there a nodule?", None, "hedged"),
        ("There is a nodule. There is no nodule.", "Is there a nodule?", None, "no_commitment"),
        ("", "Is there a nodule?", None, "empty"),
    ],
)
def test_the_rule_says_how_it_was_read(text, question, answer, rule):
    parsed = read_yes_no(text, question)
    assert (parsed.answer, parsed.rule) == (answer, rule)


@pytest.mark.parametrize("statement", ["There is no effusion.", "No effusion is seen.", "The effusion is absent."])
def test_a_statement_answers_a_question_and_its_denial_oppositely(statement):
    assert read_yes_no(statement, "Is there an effusion?").answer == "no"
    assert read_yes_no(statement, "Is there no effusion?").answer == "yes"


def test_a_finding_on_another_side_answers_nothing():
    assert (
        read_yes_no("There is an effusion in the left lung.", "Is there an effusion in the right lung?").answer is None
    )
    assert (
        read_yes_no("There is an effusion in the right lung.", "Is there an effusion in the right lung?").answer
        == "yes"
    )
