"""Fixtures of runs that are broken off."""

import pytest


@pytest.fixture(scope="session")
def drawn(tmp_path_factory):
    """Folder for the drawn pictures and their benchmark, made once."""
    return tmp_path_factory.mktemp("data")
