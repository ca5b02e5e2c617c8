from medvl.answering.choice import read_choice
from medvl.answering.mentions import Options

TEXTS = {"A": "Head", "B": "Abdomen", "C": "Femur", "D": "Thorax"}
OPTIONS = Options(TEXTS, TEXTS)


def read(text):
    parsed = read_choice(text, OPTIONS)
    return parsed.answer, parsed.rule


def test_explicit_commitments_come_before_what_is_only_likely():
    assert read("Answer: A\nThe abdomen is most likely.") == ("A", "declared")
    assert read("The abdomen is most likely.") == ("B", "concluded")


def test_the_last_explicit_commitment_counts():
    assert read("A. Head\nOn reflection the answer is C.") == ("C", "declared")
    assert read("The answer is C.\nB") == ("B", "pick_line")


def test_an_announced_answer_that_is_none_takes_back_what_was_said():
    assert read("The abdomen is most likely.\nAnswer: none of these") == (None, "no_option_fits")


def test_listed_options_are_no_picks():
    assert read("A. Head\nB. Abdomen") == (None, "options_listed")
    assert read("A. Head\nB. Abdomen\n\nD. Thorax\nB. Abdomen") == ("B", "pick_line")
    assert read("Head: no\nAbdomen: yes") == (None, "options_listed")


def test_indications_must_agree():
    assert read("It suggests the head. It indicates the femur.") == (None, "two_picks")
    assert read("It suggests the head. The head is well shown.") == ("A", "indicated")


def test_a_number_in_a_calculation_is_no_pick():
    texts = {"A": "12", "B": "16"}
    numbers = Options(texts, texts)
    assert read_choice("There are 12 cases. So the total gives something else.", numbers).answer is None
    assert read_choice("There are 4 groups. The ratio is 16.", numbers).answer == "B"
