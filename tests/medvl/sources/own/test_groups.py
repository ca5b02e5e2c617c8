import pytest

from medvl.config.own_data import OwnDataConfig
from medvl.errors import DataError
from medvl.sources.own.groups import group_of, picture_group


def group(picture="P07/a.png", stated=None, **values):
    config = OwnDataConfig(**{"name": "mylab", "format": "questions", "path": "q.jsonl", **values})
    return group_of(config, picture, stated, "q.jsonl row 3")


def test_a_column_states_the_group():
    assert group(stated=" 007 ") == "007"
    assert group(stated=7) == "7"


def test_a_pattern_reads_it_from_the_path():
    assert group(group_pattern=r"^(P\d+)/") == "P07"
    assert group(stated="column", group_pattern=r"^(P\d+)/") == "P07"


def test_each_picture_may_be_its_own_group():
    assert group(group="picture") == "P07/a.png"


def test_augmented_copies_of_one_picture_are_one_group():
    one = picture_group("train/images/P7_jpg.rf.0123456789abcdef0123456789abcdef.jpg")
    assert one == picture_group("valid/images/P7_jpg.rf.fedcba9876543210fedcba9876543210.jpg")
    assert one != picture_group("train/images/P8_jpg.rf.0123456789abcdef0123456789abcdef.jpg")


def test_without_any_rule_the_message_names_the_three():
    with pytest.raises(DataError, match=r"row 3: .*group: COLUMN.*group_pattern: .*group: picture"):
        group()


def test_an_empty_group_is_refused():
    with pytest.raises(DataError, match=r"row 3: .*empty field"):
        group(stated=" ")


@pytest.mark.parametrize("pattern", [r"^(Q\d+)", r"^P07/(x?)"])
def test_a_name_that_does_not_fit_the_pattern_is_refused(pattern):
    with pytest.raises(DataError, match=r"row 3: .*fits group_pattern.*P07/a\.png"):
        group(group_pattern=pattern)
