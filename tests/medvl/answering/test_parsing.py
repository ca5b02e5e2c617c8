import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from medvl.answering.parsing import parse_choice, parse_yes_no

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
CONFORMANCE = yaml.safe_load((GOLDEN / "reply_conformance.yaml").read_text(encoding="utf-8"))
SETS = CONFORMANCE["option_sets"]
PLANES = {"A": "Head", "B": "Abdomen", "C": "Femur", "D": "Thorax"}
QUESTION = "Is there no nodule in this X-ray?"


def name(case):
    return f"{case['reply'][:40]!r}: {case['why']}"


@pytest.mark.parametrize("case", CONFORMANCE["choice"], ids=name)
def test_multiple_choice_replies_are_read_right(case):
    assert parse_choice(case["reply"], SETS[case["options"]]).answer == case["answer"], case["why"]


@pytest.mark.parametrize("case", CONFORMANCE["yes_no"], ids=name)
def test_yes_no_replies_are_read_right(case):
    assert parse_yes_no(case["reply"], case["question"]).answer == case["answer"], case["why"]


def test_the_table_of_replies_says_why_and_repeats_nothing():
    cases = CONFORMANCE["choice"] + CONFORMANCE["yes_no"]
    assert len(cases) >= 120
    assert all(case["why"] for case in cases)
    assert all(case["answer"] in {*SETS[case["options"]], None} for case in CONFORMANCE["choice"])
    assert all(case["answer"] in {"yes", "no", None} for case in CONFORMANCE["yes_no"])
    asked = Counter((case["reply"], case.get("options"), case.get("question")) for case in cases)
    assert [case for case, times in asked.items() if times > 1] == []


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        ("", "empty"),
        ("I'm sorry, I can't interpret medical images.", "refusal"),
        ("The answer is A and C.", "two_picks"),
        ("Answer: K", "not_an_option"),
        ("K", "not_an_option"),
        ("Answer: none of these", "no_option_fits"),
        ("B. Head", "letter_contradicts_text"),
        ("A. Head\nB. Abdomen\nC. Femur\nD. Thorax", "options_listed"),
        ("There is no femur.", "denied_only"),
        ("<think>The answer is B", "unfinished_thought"),
        ("The picture was taken in the second trimester with a probe of", "truncated"),
        ("A nice picture.", "no_commitment"),
        ("USER: Which?\nASSISTANT: B\nUSER: And now?\nASSISTANT: C", "turns_disagree"),
    ],
)
def test_the_rule_says_why_there_is_no_answer(reply, rule):
    parsed = parse_choice(reply, PLANES)
    assert (parsed.answer, parsed.rule) == (None, rule)


@pytest.mark.parametrize(
    ("reply", "answer", "rule"),
    [
        ("Answer: B", "B", "declared"),
        ("B. Abdomen, as the stomach shows.", "B", "leading"),
        ("Let me see.\n\n(B) Abdomen", "B", "pick_line"),
        ("The stomach is visible. Abdomen.", "B", "trailing"),
        ("Option B is correct.", "B", "called_right"),
        ("A. Head - wrong\nB. Abdomen - correct", "B", "marked_right"),
        ("The stomach is there. Hence it must show the abdomen of the fetus.", "B", "concluded"),
        ("This depicts the abdomen.", "B", "indicated"),
        ("One looks at the abdomen here.", "B", "only_named"),
        ('{"answer": "B"}', "B", "json"),
        ("<answer>B</answer>", "B", "answer_tag"),
    ],
)
def test_the_rule_says_how_the_answer_was_found(reply, answer, rule):
    parsed = parse_choice(reply, PLANES)
    assert (parsed.answer, parsed.rule) == (answer, rule)


def test_letters_are_returned_as_the_options_spell_them():
    assert parse_choice("The answer is B", {"a": "head", "b": "abdomen"}).answer == "b"


def test_a_question_without_options_has_no_answer():
    assert parse_choice("The answer is B", {}).answer is None


def test_reading_replies_needs_no_torch():
    code = "import sys, medvl.answering.parsing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=100).returncode == 0


# What holds for every reply

WORDS = """A B I a b A. (B) [C] B) A: option answer Answer: is the not no yes Yes, No. head Head. abdomen and or / , . :
; ? ! - * ** _ ` # | $ \\boxed{ \\text{ } { " ' ( ) [ ] <think> </think> <answer> </answer> USER: ASSISTANT: Therefore I
think choose cannot whether if would 80% 1 12 {"answer": answer": Ｂ 【 】 答案 ﷺ é ✓ [x]"""
PIECES = st.sampled_from([*WORDS.split(), "\n", "\n\n", "\u200b", "\ud800"])
REPLIES = st.one_of(
    st.text(st.characters()), st.lists(PIECES, max_size=30).map(" ".join), st.lists(PIECES).map("".join)
)
TEXTS = st.one_of(
    st.sampled_from(["Head", "no", "a", "B", "12", "", "Both A and B", "(", "head down"]), st.text(max_size=20)
)
OPTIONS = st.lists(TEXTS, max_size=10).map(lambda texts: dict(zip("ABCDEFGHIJ", texts, strict=False)))


@settings(max_examples=50)
@given(REPLIES, OPTIONS)
@example("\\boxed{" * 3, {"A": "\\boxed{"})
@example("Answer: " + "not but " * 2000, {"A": "but"})
@example("C", {"A": "C", "B": "C"})
@example("B" + "\ud800", {"A": "", "B": "\ud800"})
def test_an_answer_is_an_option_or_none_and_trailing_space_changes_nothing(reply, options):
    parsed = parse_choice(reply, options)
    assert parsed.answer is None or parsed.answer in options
    assert parsed.rule
    assert parse_choice(reply + " \n\t ", options) == parsed
    assert parse_choice(reply, dict(reversed(options.items()))).answer == parsed.answer


@settings(max_examples=60)
@given(REPLIES, st.one_of(st.none(), REPLIES))
def test_a_yes_no_reply_is_yes_no_or_none_and_trailing_space_changes_nothing(reply, question):
    parsed = parse_yes_no(reply, question)
    assert parsed.answer in {"yes", "no", None}
    assert parsed.rule
    assert parse_yes_no(reply + " \n\t ", question) == parsed


SENTENCES = [
    "The answer is A.",
    "I think it is C.",
    "A large mass is seen.",
    "Option D is not correct.",
    "The head is visible, the femur is not.",
    "A. Head\nB. Abdomen\nC. Femur\nD. Thorax",
    "I'm sorry, I can't see the picture.",
    "**Note:** (A) and (C) look alike.",
    "Is it D?",
    "Thorax.",
    "$x = \\frac{1}{2}$",
    "A: 10 %, B: 80 %",
]


@settings(max_examples=40)
@given(st.lists(st.sampled_from(SENTENCES), max_size=6), st.sampled_from("ABCD"))
def test_the_last_announced_answer_wins_whatever_was_said_before(before, letter):
    reply = "\n".join([*before, f"Answer: {letter}"])
    assert parse_choice(reply, PLANES).answer == letter
    assert parse_choice("\n".join([*before, f"So the final answer is **({letter})**."]), PLANES).answer == letter


@settings(max_examples=20)
@given(st.lists(st.sampled_from(["There is no effusion.", "Yes.", "No, I see none.", "Maybe."]), max_size=4))
def test_the_last_announced_yes_or_no_wins(before):
    for word in ("yes", "no"):
        assert parse_yes_no(" ".join([*before, f"The answer is {word}."]), "Is there a nodule?").answer == word


LONG = [
    *(
        "(",
        '"',
        "**",
        "A\n",
        "A, ",
        "A. x\nB. y\n",
        "answer is ",
        "not, ",
        "if would ",
        "no head, ",
        "1,",
        "\\boxed{",
        "$A$ ",
    ),
    *(
        "![",
        "*a ",
        "<think>",
        "<answer>",
        "USER: ",
        '{"answer": ',
        "I choose ",
        "most likely ",
        "cannot ",
        "nodule ",
        "答案",
        "? ",
        "x",
        " ",
    ),
]


def test_the_time_grows_with_the_length_only():
    def seconds(piece, length):
        text = (piece * (length // len(piece) + 1))[:length]
        start = time.process_time()
        parse_choice(text, PLANES)
        parse_yes_no(text, QUESTION)
        return time.process_time() - start

    slow = {}
    for piece in LONG:  # the best of two, for the garbage collector may run within one
        short = min(seconds(piece, 300) for _ in range(2))
        long = min(seconds(piece, 3_000) for _ in range(2))  # 100 times as slow if any step were quadratic
        if long > 40 * max(short, 0.002):
            slow[piece] = (short, long)
    assert slow == {}


# Real replies


def rows_with_labels(shared_data):
    labels = {row["key"]: row for row in map(json.loads, (GOLDEN / "reply_labels.jsonl").read_text().splitlines())}
    path = shared_data / "vlm_outputs" / "raw_answers.jsonl"
    if not path.is_file():
        pytest.skip(f"no replies of real models at {path}")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["question_type"] != "open"]
    keyed = {}
    for row in rows:
        parts = (row["source"], row["model"], row["subset"], row["id"], row["response"])
        keyed[hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]] = row
    assert keyed.keys() == labels.keys(), "the labels are of other replies"
    return [(row, labels[key]) for key, row in keyed.items()]


def test_real_replies_are_read_as_a_person_reads_them(shared_data):
    counts = {"development": Counter(), "held_out": Counter()}
    for row, label in rows_with_labels(shared_data):
        if row["question_type"] == "yes-no":
            answer = parse_yes_no(row["response"], row["question"]).answer
            assert answer in {"yes", "no", None}
        else:
            options = row["options"] or dict.fromkeys("ABCDE", "")
            answer = parse_choice(row["response"], options).answer
            assert answer is None or answer in options
        if label["certain"]:
            outcome = "agree" if answer == label["answer"] else "missed" if answer is None else "wrong"
            counts[label["half"]][outcome] += 1
            assert label["answer"] is not None or answer is None, (row["id"], answer)
    for half, count in counts.items():
        assert count["agree"] >= 0.98 * count.total(), (half, count)
        assert count["wrong"] <= 0.005 * count.total(), (half, count)


def test_the_labels_cover_both_halves():
    labels = [json.loads(line) for line in (GOLDEN / "reply_labels.jsonl").read_text().splitlines()]
    assert len({label["key"] for label in labels}) == len(labels) == 661
    assert all(label["answer"] is None or label["answer"] in {*"ABCDEFGHIJ", "yes", "no"} for label in labels)
    halves = Counter(label["half"] for label in labels)
    assert min(halves["development"], halves["held_out"]) > 300
