"""Fixtures that several test folders use."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

# The tests are no packages (importlib mode), so the generators of miniature datasets are found by this path. It must
# not be the folder above: its `medvl` would stand in for the library.
sys.path.append(str(Path(__file__).parent / "fixtures"))

from mini_fetal_planes import write_mini_fetal_planes
from mini_hc18 import write_mini_hc18

if TYPE_CHECKING:  # torch and transformers are imported by the fixtures that need them
    from data_modules.question_datamodule import QuestionDataModule
    from medvl.benchmark.item import Item
    from medvl.models.base import Base

# Time limits per example fail on a busy machine, not on a defect. CI draws the same examples each time.
settings.register_profile("medvl", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("medvl")


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


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the tiny model's architecture with random weights."""
    from tiny_models import write_tiny_llava

    return write_tiny_llava(tmp_path_factory.mktemp("models") / "llava")


@pytest.fixture(scope="session")
def tiny_mllama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of Llama 3.2 Vision's architecture with random weights."""
    from tiny_models import write_tiny_mllama

    return write_tiny_mllama(tmp_path_factory.mktemp("models") / "mllama")


@pytest.fixture(scope="session")
def tiny_base(tiny_folder: Path) -> Base:
    """The tiny model. Shared: leave it as it is."""
    return _load(tiny_folder)


@pytest.fixture(scope="session", params=["llava", "mllama"])
def family_folder(request: pytest.FixtureRequest) -> Path:
    """Each supported family's random checkpoint in turn."""
    folder: Path = request.getfixturevalue({"llava": "tiny_folder", "mllama": "tiny_mllama_folder"}[request.param])
    return folder


@pytest.fixture(scope="session")
def family_base(family_folder: Path) -> Base:
    """Each supported family's model in turn. Shared: leave it as it is."""
    return _load(family_folder)


@pytest.fixture
def fresh_base(family_folder: Path) -> Base:
    """The same, loaded for one test, which may change it."""
    return _load(family_folder)


@pytest.fixture(scope="session")
def demo_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A miniature of the drawn demo dataset. Shared: leave it as it is."""
    from medvl.sources.demo.dataset import write_demo_dataset

    folder = tmp_path_factory.mktemp("demo") / "root"
    write_demo_dataset(folder, patients=8)
    return folder


@pytest.fixture(scope="session")
def demo_data(demo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> QuestionDataModule:
    """The benchmark of the miniature demo dataset."""
    from data_modules.question_datamodule import QuestionDataModule
    from medvl.config.schema import DataConfig, EvaluateConfig, ModelConfig, PathsConfig

    config = EvaluateConfig(
        name="test",
        model=ModelConfig(name="tiny", path="unused"),
        data=DataConfig(name="demo", root=str(demo_root), sources=["demo"]),
        paths=PathsConfig(data=str(tmp_path_factory.mktemp("built"))),
    )
    data = QuestionDataModule(config)
    data.prepare_data()
    data.setup()
    return data


@pytest.fixture(scope="session")
def demo_items(demo_data: QuestionDataModule) -> list[Item]:
    """Its items."""
    return demo_data.benchmark.items


def _load(folder: Path) -> Base:
    from medvl.config.schema import ModelConfig
    from medvl.models.base import load_base

    return load_base(ModelConfig(name="tiny", path=str(folder)))


@pytest.fixture
def ctrl_c_works():
    """A shell makes what it starts in the background deaf to Ctrl-C; Python then installs no handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
