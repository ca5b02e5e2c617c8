import pytest
from torch.utils.data import Dataset

from medvl.batching.loading import QuestionLoader, WholeBatches
from medvl.errors import DataError

MESSAGE = "pictures/x.png: cut short\n  copy it again"


class Breaking(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index == 4:
            raise DataError(MESSAGE)
        return index


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_reads_the_same_from_a_loading_process(workers):
    loader = QuestionLoader(Breaking(), batch_size=2, num_workers=workers, collate_fn=list)
    seen = []
    with pytest.raises(DataError) as caught:
        seen.extend(loader)
    assert str(caught.value) == MESSAGE
    assert type(caught.value) is DataError


@pytest.mark.parametrize("workers", [0, 2])
def test_it_can_be_read_again_and_left_early(workers):
    loader = QuestionLoader(
        range(6), batch_size=2, num_workers=workers, collate_fn=list, persistent_workers=workers > 0
    )
    assert next(iter(loader)) == [0, 1]
    assert list(loader) == list(loader) == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("workers", [0, 2])
def test_whole_batches_are_loaded_as_they_were_made(workers):
    batches = WholeBatches("abcdef", [[5, 0], [1], [2, 4, 3]])
    loader = QuestionLoader(batches, batch_size=None, num_workers=workers, collate_fn="".join)
    assert list(loader) == ["fa", "b", "ced"]
    assert len(loader) == 3
