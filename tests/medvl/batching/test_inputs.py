import pytest

from medvl.batching.inputs import Companions
from medvl.errors import ModelError

QWEN = Companions(always=("mm_token_type_ids",), with_pictures=("image_grid_thw",))
WHOLE = {"input_ids", "attention_mask", "mm_token_type_ids", "pixel_values", "image_grid_thw"}


def test_a_whole_batch_passes():
    QWEN.check(WHOLE, pictures=True)
    QWEN.check({"input_ids", "attention_mask", "mm_token_type_ids"}, pictures=False)


@pytest.mark.parametrize("name", ["mm_token_type_ids", "pixel_values", "image_grid_thw"])
def test_an_absent_input_is_named(name):
    with pytest.raises(ModelError, match=f"a batch lacks {name}, without which"):
        QWEN.check(WHOLE - {name}, pictures=True)


def test_questions_without_pictures_need_the_text_inputs_only():
    with pytest.raises(ModelError, match="lacks mm_token_type_ids,"):
        QWEN.check({"input_ids"}, pictures=False)
