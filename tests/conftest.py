"""Fixtures that several test folders use."""

import sys
from pathlib import Path

import pytest

# The tests are no packages (importlib mode), so the generators of miniature datasets are found by this path. It must
# not be the folder above: its `medvl` would stand in for the library.
sys.path.append(str(Path(__file__).parent / "fixtures"))

from mini_fetal_planes import write_mini_fetal_planes
from mini_hc18 import write_mini_hc18


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real samples of public datasets, beside the project."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real dataset samples at {folder}")
    return folder


@pytest.fixture
def mini_hc18(tmp_path: Path) -> Path:
    """A miniature HC18 in the published layout."""
    return write_mini_hc18(tmp_path / "hc18")


@pytest.fixture
def mini_fetal_planes(tmp_path: Path) -> Path:
    """A miniature FETAL_PLANES_DB in the published layout."""
    return write_mini_fetal_planes(tmp_path / "fetal_planes_db")
