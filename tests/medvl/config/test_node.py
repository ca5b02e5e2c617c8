import pytest
from pydantic import ValidationError

from medvl.config.node import Node


class Speed(Node):
    """A node of one value."""

    model_rate: float = 1.0


def test_a_node_takes_no_other_key_and_no_infinity():
    with pytest.raises(ValidationError, match="Extra inputs"):
        Speed.model_validate({"modelrate": 2})
    with pytest.raises(ValidationError, match="finite"):
        Speed(model_rate=float("inf"))


def test_a_node_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        Speed().model_rate = 2.0
