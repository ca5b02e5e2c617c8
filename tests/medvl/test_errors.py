"""A disk that refuses a write is recognised in whatever shape the refusal arrives."""

import errno

import pytest

from medvl.errors import ConfigError, disk_refusal


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_the_systems_own_error_is_recognised(number):
    assert disk_refusal(OSError(number, "x")) is not None


def test_text_of_another_library_is_recognised():
    error = RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")
    assert disk_refusal(error) == "No space left on device"


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOENT, "x"), FileNotFoundError("No space left on device"), ValueError("x")]
)
def test_other_errors_are_left_alone(error):
    assert disk_refusal(error) is None


def test_problems_of_a_configuration_are_listed():
    assert str(ConfigError(["a", "b"])) == "2 problems in the configuration:\n  - a\n  - b"
