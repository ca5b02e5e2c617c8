import pytest
import torch
from mini_items import make_item

from medvl.answering.driver import ask_all, check_finite
from medvl.batching.collator import Batch
from medvl.errors import ModelError


def batch_of(*numbers):
    inputs = {"input_ids": torch.zeros(len(numbers), 3, dtype=torch.long)}
    return Batch(tuple(make_item(number=i) for i in numbers), inputs, None, torch.zeros(len(numbers)))


def ids(batch):
    return [item.item_id for item in batch.items]


def test_answers_stand_in_order_and_each_batch_is_reported_once():
    seen, kept = [], []
    found = ask_all(torch.nn.Linear(1, 1), [batch_of(2, 0), batch_of(1)], ids, "cpu", seen.append, kept.append)
    assert found == ["PI-2", "PI-0", "PI-1"]
    assert (seen, kept) == ([2, 3], [["PI-2", "PI-0"], ["PI-1"]])
    assert ask_all(torch.nn.Linear(1, 1), [], ids, "cpu") == []


def test_the_model_is_asked_in_evaluation_mode_and_each_module_gets_its_mode_back():
    model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Dropout()).train()
    model[0].eval()
    modes = []
    ask_all(model, [batch_of(0)], lambda batch: modes.append(model[1].training) or [], "cpu")
    assert modes == [False]
    assert [module.training for module in model.modules()] == [True, False, True]


def test_modes_and_kept_answers_survive_an_error():
    model, kept = torch.nn.Linear(1, 1).train(), []

    def breaking():
        yield batch_of(0)
        raise ModelError("broken")

    with pytest.raises(ModelError, match="broken"):
        ask_all(model, breaking(), ids, "cpu", keep=kept.append)
    assert model.training
    assert kept == [["PI-0"]]


def gpu_is_full(batch):
    raise torch.OutOfMemoryError("CUDA out of memory.")


def cpu_is_full(batch):
    return [torch.empty(2**58, dtype=torch.uint8)]


@pytest.mark.parametrize("ask", [gpu_is_full, cpu_is_full])
def test_a_batch_that_the_memory_does_not_hold_is_named(ask):
    with pytest.raises(
        ModelError, match=r"device cpu .* 2 questions \(PI-3, PI-4\); lower eval\.batch_tokens or eval\.batch_size"
    ):
        ask_all(torch.nn.Linear(1, 1), [batch_of(3, 4)], ask, "cpu")


def test_any_other_error_is_left_as_it_is():
    def wrong(batch):
        raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError, match="shapes do not fit"):
        ask_all(torch.nn.Linear(1, 1), [batch_of(0)], wrong, "cpu")


def test_logits_that_are_no_numbers_are_refused_by_the_names_of_their_items():
    items = [make_item(number=i) for i in range(9)]
    check_finite(items, [False] * 9)
    with pytest.raises(ModelError, match=r"not finite for items PI-1, PI-4; .*model\.dtype=float32"):
        check_finite(items, [i in (1, 4) for i in range(9)])
    with pytest.raises(ModelError, match=r"PI-0, PI-1, PI-2, PI-3, PI-4 and 4 more;"):
        check_finite(items, [True] * 9)
