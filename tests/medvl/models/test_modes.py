import pytest
import torch

from medvl.models.modes import in_evaluation


def test_each_module_gets_its_own_mode_back_also_after_an_error():
    model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(2, 2))
    model[1].eval()
    before = [module.training for module in model.modules()]
    with in_evaluation(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == before
    with pytest.raises(ValueError, match="stop"), in_evaluation(model):
        raise ValueError("stop")
    assert [module.training for module in model.modules()] == before
