import pytest

from medvl.answering.mentions import Options, keys, tokens


def options(*texts):
    named = dict(zip("ABCDEFGHIJ", texts, strict=False))
    return Options(named, named)


def found(text, *texts):
    prepared = options(*texts)
    return ["".join(sorted(mention.letters)) for mention in prepared.mentions(tokens(text))]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Hemorrhages", "haemorrhage"),
        ("tumour", "Tumor"),
        ("trans-thalamic", "transthalamic"),
        ("non standard", "non-standard"),
        ("the 1940's", "the 1940s"),
        ("Cézanne", "cezanne"),
        ("9.75kips", "9.75 kips"),
        ("10.0 %", "10%"),
        ("$51,180", "$51180"),
        ("(1.29~40.37)", "1.29, 40.37"),
        ("arteries", "artery"),
    ],
)
def test_ways_to_write_the_same_are_equal(one, other):
    assert keys(one) == keys(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("normal", "abnormal"),
        ("1", "12"),
        ("-0.01", "0.01"),
        ("16.36", "16"),
        ("standard", "non-standard"),
        ("s", "s+"),
    ],
)
def test_different_things_are_not(one, other):
    assert keys(one) != keys(other)


def test_the_longest_option_is_found_at_each_place():
    assert found("the E. coli and Staph aureus", "E. coli", "Staph aureus", "E. coli and Staph aureus") == ["C"]
    assert found("a fetal head down here", "head", "head down") == ["B"]
    assert found("Abnormal", "Normal") == []
    assert found("heads and femurs", "head", "femur") == ["A", "B"]
    assert found("nothing", "") == []


def test_additions_in_brackets_and_articles_may_be_left_out():
    assert found("powdery temple", "Downy mildew (oomycete)", "a temple") == ["B"]
    assert found("downy mildew", "Downy mildew (oomycete)", "a temple") == ["A"]


def test_equal_texts_belong_to_several_letters():
    assert found("a cyst", "cyst", "Cyst.") == ["AB"]


def test_a_whole_text_is_told_from_its_beginning():
    prepared = options("fetal head", "femur")
    assert prepared.equal("A fetal head.") == {"A"}
    assert prepared.equal("A. fetal head") == frozenset()
    assert prepared.equal("fetal head, cut low") == frozenset()
    assert prepared.opens("the fetal head, cut low").letters == {"A"}
    assert prepared.opens("one fetal head") is None


def test_a_paraphrase_has_most_telling_words_of_one_option_only():
    planes = options("fetal head plane", "abdominal circumference plane", "femur length plane", "maternal cervix plane")
    assert planes.paraphrased("the standard plane for the circumference of the abdominal wall") == "B"
    assert planes.paraphrased("a plane") is None
    assert planes.paraphrased("no maternal cervix") is None
    assert planes.paraphrased("the femur and the maternal cervix") is None
    assert options().paraphrased("a plane") is None


def test_options_that_are_labels_are_known_as_such():
    assert options("B", "(D)", "II").labels == {"B": "A", "D": "B"}
