import torch
from mini_batches import make_samples
from trained_adapter import ALL, LORA, again, logits

from medvl.batching.collator import Collator
from medvl.models.adapter import attach_adapter
from medvl.models.adapter_files import load_adapter
from medvl.models.proof import prove_adapter


def test_the_proof_shows_a_live_adapter_and_a_merge_that_changes_nothing(saved, family_folder):
    folder, _ = saved
    base = again(family_folder)
    model = load_adapter(base, folder)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)) * 0.05)
    batch = Collator(base.processor, with_answer=False)(make_samples())
    before = logits(model, base)
    proof = prove_adapter(model, base, batch)
    assert proof["logit_change"] > 0.05
    assert proof["merge_difference"] < 1e-4
    assert {part: n["zero"] for part, n in proof["b_norms"].items()} == dict.fromkeys(ALL, 0)
    assert torch.allclose(logits(model, base), before, atol=1e-4)


def test_the_proof_shows_a_dead_adapter(fresh_base):
    model = attach_adapter(fresh_base, LORA, 0).eval()
    proof = prove_adapter(model, fresh_base, Collator(fresh_base.processor, with_answer=False)(make_samples()))
    assert proof["logit_change"] == 0
    assert all(n["zero"] == n["matrices"] for n in proof["b_norms"].values())
