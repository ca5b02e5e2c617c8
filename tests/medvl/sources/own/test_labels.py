import pytest

from medvl.config.own_data import OwnDataConfig
from medvl.errors import DataError
from medvl.sources.own.labels import check_labels


def config(**labels):
    return OwnDataConfig(name="mylab", format="yolo", path="d", labels=labels)


def test_classes_that_occur_can_be_renamed():
    check_labels(config(ac="abdomcirc"), ["ac", "fl"], "data.yaml")


def test_a_class_that_does_not_occur_is_named_with_what_was_meant():
    with pytest.raises(DataError, match=r"data\.yaml: expected the class 'head ' .*'mylab'.*did you mean head\?"):
        check_labels(config(**{"head ": "fetal head"}), ["head", "femur"], "data.yaml")
