import pytest

from medvl.config.targets import target_problems


def test_nodes_that_can_be_built_pass():
    assert target_problems("callbacks", {"a": {"_target_": "fractions.Fraction", "numerator": 3}, "off": None}) == []
    assert target_problems("logger", {"a": {"_target_": "logging.LogRecord", "_partial_": True, "name": "n"}}) == []


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (
            {"_target_": "fractions.Fraction", "numeratr": 3},
            "no key 'numeratr' in callbacks.c: fractions.Fraction does",
        ),
        ({"_target_": "fractions.Fraction", "numeratr": 3}, "did you mean numerator"),
        ({"_target_": "fractions.Fractoin"}, "callbacks.c._target_='fractions.Fractoin' cannot be imported"),
        ({"_target_": "nothing.at.all"}, "cannot be imported"),
        ({"_target_": "logging.LogRecord", "name": "n"}, "missing a required argument: 'level'"),
        ({"monitor": "x"}, "callbacks.c has no _target_"),
        (
            {"_target_": "argparse.Namespace", "a": {"_target_": "fractions.Fraction", "x": 1}},
            "no key 'x' in callbacks.c.a",
        ),
        (
            {"_target_": "argparse.Namespace", "a": [{"_target_": "fractions.Fraction", "x": 1}]},
            "in callbacks.c.a.0",
        ),
    ],
)
def test_nodes_that_cannot_be_built_are_named(node, says):
    assert says in target_problems("callbacks", {"c": node})[0]
