import copy
import pickle

import pytest
import torch
from PIL import Image

from medvl.batching.pictures_once import with_pictures_once


class Counting:
    """The image processor of a tiny model, which notes how many pictures it was given."""

    def __init__(self, images):
        self.images, self.seen = images, []
        self.model_input_names = images.model_input_names

    def __call__(self, images, **settings):
        self.seen.append(len(images))
        return self.images(images=images, **settings)


@pytest.fixture
def processor(family_base):
    processor = copy.copy(family_base.processor)
    processor.image_processor = Counting(processor.image_processor)
    return processor


def pictures():
    return [Image.new("RGB", size, colour) for size, colour in (((40, 30), "red"), ((30, 90), "grey"))]


def test_a_picture_given_twice_is_prepared_once(processor):
    one, other = pictures()
    rows = [[one], [other], [one], [one]]
    found = with_pictures_once(processor).image_processor(images=rows, return_tensors="pt")
    whole = processor.image_processor(images=rows, return_tensors="pt")
    assert processor.image_processor.seen == [2, 4]
    assert found.keys() == whole.keys()
    for name, value in whole.items():
        same = torch.equal(found[name], value) if isinstance(value, torch.Tensor) else found[name] == value
        assert same, name


def test_equal_pictures_that_are_different_objects_are_not_looked_for(processor):
    one = pictures()[0]
    with_pictures_once(processor).image_processor(images=[[one], [one.copy()]], return_tensors="pt")
    assert processor.image_processor.seen == [2]


def test_the_processor_given_stays_as_it_is(processor):
    before = processor.image_processor
    own = with_pictures_once(processor)
    assert processor.image_processor is before
    assert type(own) is type(processor)
    assert own.tokenizer is processor.tokenizer
    assert own.image_processor.model_input_names == before.model_input_names


def test_it_can_be_sent_to_a_worker_that_loads_batches(family_base):
    one = pictures()[0]
    sent = pickle.loads(pickle.dumps(with_pictures_once(family_base.processor)))
    found = sent.image_processor(images=[[one], [one]], return_tensors="pt")
    assert torch.equal(found["pixel_values"][0], found["pixel_values"][1])


def test_an_output_of_unknown_layout_is_refused():
    class Strange:
        def __call__(self, images, **settings):
            return type("Found", (dict,), {})({"pixel_values": torch.zeros(5, 3)})

    processor = type("Processor", (), {"image_processor": Strange()})()
    one, other = pictures()
    with pytest.raises(ValueError, match=r"pixel_values has 5 entries for 2 pictures"):
        with_pictures_once(processor).image_processor(images=[[one], [other], [one]])
