import pytest
from mini_batches import make_samples

from medvl.batching.collator import Collator
from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models.base import load_base
from medvl.models.specimens import specimen_folder


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def load(shelf, name, **limits):
    return load_base(ModelConfig(name=name, path=str(specimen_folder(name, shelf)), **limits))


def row_length(base, width, height):
    (sample,) = make_samples(((width, height),))
    return Collator(base.processor, with_answer=False, companions=base.family.companions)([sample]).inputs


def test_pixel_limits_change_the_grid_and_the_count_alike(shelf):
    few = load(shelf, "tiny_qwen25vl", min_pixels=28 * 28, max_pixels=4 * 28 * 28)
    many = load(shelf, "tiny_qwen25vl", min_pixels=28 * 28, max_pixels=64 * 28 * 28)
    for base, most in ((few, 4), (many, 64)):
        grid = row_length(base, 448, 448)["image_grid_thw"][0]
        tokens = int(grid.prod()) // 4
        assert tokens <= most
        assert base.family.picture_tokens(base.processor, 448, 448) == tokens
    assert few.family.picture_tokens(few.processor, 448, 448) < many.family.picture_tokens(many.processor, 448, 448)


def test_small_pictures_are_enlarged_to_the_lower_limit(shelf):
    base = load(shelf, "tiny_qwen25vl", min_pixels=16 * 28 * 28, max_pixels=64 * 28 * 28)
    assert base.family.picture_tokens(base.processor, 30, 40) >= 16


@pytest.mark.parametrize("name", ["tiny_mllama", "tiny_internvl", "tiny_smolvlm"])
def test_one_tile_shows_a_picture_whole(shelf, name):
    whole = load(shelf, name, max_tiles=1)
    tiled = load(shelf, name)
    shapes = [row_length(base, 448, 448)["pixel_values"].shape for base in (whole, tiled)]
    assert shapes[0].numel() < shapes[1].numel()
    counts = [base.family.picture_tokens(base.processor, 448, 448) for base in (whole, tiled)]
    assert counts[0] <= counts[1]


@pytest.mark.parametrize(
    ("name", "limits", "message"),
    [
        ("tiny_gemma3", {"max_pixels": 1000}, "its pictures are of fixed resolution"),
        ("tiny_qwen25vl", {"max_tiles": 2}, "its pictures are of free resolution"),
        ("tiny_qwen25vl", {"min_pixels": 10**9}, r"min_pixels 1000000000 is above max_pixels"),
    ],
)
def test_a_limit_that_a_model_does_not_have_is_refused(shelf, name, limits, message):
    with pytest.raises(ModelError, match=message):
        load(shelf, name, **limits)
