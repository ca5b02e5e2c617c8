import copy

import pytest
import torch
from mini_batches import make_samples
from PIL import Image

from medvl.batching.pictures_once import encode
from medvl.batching.prompt import render


class Counting:
    """The image processor of a tiny model, which notes how many pictures it was given."""

    def __init__(self, images):
        self.images, self.seen = images, []

    def __getattr__(self, name):
        return getattr(self.images, name)

    def __call__(self, images, **settings):
        self.seen.append(len(images))
        return self.images(images=images, **settings)


@pytest.fixture
def processor(family_base):
    processor = copy.copy(family_base.processor)
    processor.image_processor = Counting(processor.image_processor)
    return processor


def pictures():
    return [Image.fromarray(sample.pixels) for sample in make_samples(((40, 30), (30, 90)))]


def texts(processor, count):
    return [render(processor, "Which plane is it? " * (1 + number)) for number in range(count)]


def test_a_picture_that_several_rows_show_is_prepared_once(processor):
    shown, (one, other) = texts(processor, 4), pictures()
    found = encode(processor, shown, [one, other], [0, 1, 0, 0], padding=True, return_tensors="pt")
    images = [[one], [other], [one], [one]]
    whole = processor(text=shown, images=images, padding=True, return_tensors="pt")
    assert processor.image_processor.seen == [2, 4]
    assert found.keys() == whole.keys()
    for name, value in whole.items():
        by_row = found[name] if len(found[name]) == 4 else found[name][[0, 1, 0, 0]]
        assert torch.equal(by_row, value), name
    assert len(found["pixel_values"]) == 2
    assert len(found["input_ids"]) == 4


def test_rows_without_pictures_need_none(processor):
    found = encode(processor, ["What is it?", "Is it?"], [], [0, 0], padding=True, return_tensors="pt")
    assert len(found["input_ids"]) == 2
    assert "pixel_values" not in found
    assert processor.image_processor.seen == []


def test_the_processor_stays_as_it_is(processor):
    before = processor.image_processor
    encode(processor, texts(processor, 1), pictures()[:1], [0], padding=True, return_tensors="pt")
    assert processor.image_processor is before


def test_an_output_of_unknown_layout_is_refused(processor):
    class Strange(Counting):
        def __call__(self, images, **settings):
            return {**super().__call__(images, **settings), "sizes": torch.zeros(5, 3)}

    processor.image_processor = Strange(processor.image_processor.images)
    with pytest.raises(ValueError, match=r"sizes has 5 entries for 2 pictures"):
        encode(processor, texts(processor, 3), pictures(), [0, 1, 0], padding=True, return_tensors="pt")
