"""Towers that were quickened against those of transformers, on tiny checkpoints of their true architecture."""

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mini_batches import make_samples
from torch import nn
from torch.nn import functional as F
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from medvl.batching.collator import IGNORED, Collator
from medvl.config.schema import LoraConfig, ModelConfig
from medvl.models import vision_tower
from medvl.models.adapter import attach_adapter
from medvl.models.answer_head import logits_at
from medvl.models.base import load_base
from medvl.models.checkpointing import checkpoint_layers
from medvl.models.families import FAMILIES
from medvl.models.specimens import build_specimen
from medvl.models.vision_tower import PatchFilters, WindowedAttention, windows_of

NAMES = ("tiny_qwen2_vl", "tiny_qwen25vl", "tiny_qwen3vl")
LEARNING = ["tiny_qwen25vl", *(pytest.param(name, marks=pytest.mark.slow) for name in (NAMES[0], NAMES[2]))]
GRIDS = torch.tensor([[1, 8, 8], [1, 10, 6], [1, 4, 14], [1, 2, 2], [1, 8, 8]])
"""Pictures in patches. Qwen2.5-VL's windows are 4 x 4 here; the second and third have smaller ones at their edges."""


@pytest.fixture(scope="module", params=NAMES)
def folder(request, tmp_path_factory):
    return build_specimen(request.param, tmp_path_factory.mktemp("specimens") / request.param)


@pytest.fixture(scope="module")
def loaded(folder):
    """(quickened, transformers' own). Shared: leave them as they are."""
    return load(folder), load(folder, quick_tower=False)


@pytest.fixture(scope="module")
def towers(loaded):
    return [base.model.model.visual for base in loaded]


def load(folder, **options):
    return load_base(ModelConfig(name=folder.name, path=str(folder), **options))


def pixels(tower, grids=GRIDS):
    draw = torch.Generator().manual_seed(0)
    return torch.randn(int(grids.prod(dim=1).sum()), tower.patch_embed.proj.weight[0].numel(), generator=draw)


def outputs(tower, grids=GRIDS):
    """Everything that a tower hands on."""
    found = tower(pixels(tower, grids).to(tower.dtype), grids)
    return [found.last_hidden_state, found.pooler_output, *(getattr(found, "deepstack_features", None) or [])]


@torch.no_grad()
def same(quick, plain, grids=GRIDS, **tolerance):
    torch.testing.assert_close(outputs(quick, grids), outputs(plain, grids), **(tolerance or {"atol": 1e-5, "rtol": 0}))


@pytest.fixture
def attended(monkeypatch):
    """Shape of the queries of every call of sdpa."""
    shapes, real = [], ALL_ATTENTION_FUNCTIONS["sdpa"]

    def attend(module, query, *inputs, **options):
        shapes.append(tuple(query.shape))
        return real(module, query, *inputs, **options)

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "sdpa", attend)
    return shapes


@pytest.mark.parametrize("grids", [GRIDS, GRIDS[:1], GRIDS[3:4], GRIDS[[0, 4]], GRIDS[[1]]])
def test_outputs_are_those_of_transformers(towers, grids):
    same(*towers, grids)


def test_a_picture_is_encoded_the_same_beside_others(towers):
    quick, _ = towers
    with torch.no_grad():
        together, alone = outputs(quick)[1], [outputs_of(quick, number) for number in range(len(GRIDS))]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=0)


def outputs_of(tower, number):
    start, count = int(GRIDS[:number].prod(dim=1).sum()), int(GRIDS[number].prod())
    return tower(pixels(tower)[start : start + count], GRIDS[[number]]).pooler_output


def test_windows_of_one_length_share_a_call(towers, attended):
    quick, plain = towers
    with torch.no_grad():
        outputs(quick)
        ours = attended.copy()
        attended.clear()
        outputs(plain)
    depth = len(quick.blocks)
    assert all(shape[0] == 1 for shape in attended)
    if quick.config.model_type.startswith("qwen2_5"):
        # First layer: whole windows (16 patches), edges (8), a corner and a small picture (4). Second: pictures.
        assert ours[:3] == [(count, 4, length, 16) for length, count in ((4, 2), (8, 4), (16, 13))]
        assert len(ours) == 3 + 4
        assert len(attended) == 19 + 5
    else:
        assert len(ours) == depth * 4
        assert len(attended) == depth * 5
    assert sum(a * c for a, _, c, _ in ours) == sum(c for _, _, c, _ in attended)


def test_bounds_are_read_once_for_all_layers(towers, monkeypatch):
    quick, _ = towers
    seen = []
    monkeypatch.setattr(vision_tower, "windows_of", lambda bounds: (seen.append(bounds), windows_of(bounds))[1])
    with torch.no_grad():
        outputs(quick)
    assert len(seen) == (2 if quick.config.model_type.startswith("qwen2_5") else 1)


@pytest.mark.parametrize("scores", [1, 8_192, 2**20])
def test_eager_attention_holds_few_scores_and_gives_the_same(towers, monkeypatch, scores):
    monkeypatch.setattr(vision_tower, "SCORES", scores)
    held = []
    real = vision_tower.qwen2.eager_attention_forward

    def attend(module, query, *inputs, **options):
        held.append((query.shape[0], query.shape[2]))
        return real(module, query, *inputs, **options)

    monkeypatch.setattr(vision_tower.qwen2, "eager_attention_forward", attend)
    for tower in towers:
        monkeypatch.setattr(tower.config, "_attn_implementation_internal", "eager")
    same(*towers)
    assert all(count == 1 or count * length**2 <= scores for count, length in held)
    assert any(count > 1 for count, _ in held) == (scores > 1)


def test_flash_attention_takes_all_windows_as_they_are(towers, monkeypatch):
    seen = []

    def flash(module, query, key, value, **options):
        seen.append((tuple(query.shape), options["cu_seq_lens_q"].tolist(), options["max_length_q"]))
        return query.transpose(1, 2), None

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "flash_attention_2", flash)
    for tower in towers:
        monkeypatch.setattr(tower.config, "_attn_implementation_internal", "flash_attention_2")
    same(*towers, atol=1e-4, rtol=1e-5)
    depth = len(towers[0].blocks)
    assert len(seen) == 2 * depth
    assert seen[:depth] == seen[depth:]


def learnt(base, checkpointing=(), **options):
    """Loss and gradients of one backward pass."""
    model = attach_adapter(base, LoraConfig(r=2, dropout=0.0, parts=["vision", "projector"]), seed=0, **options)
    checkpoint_layers(model, base.family, checkpointing)
    draw = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.add_(torch.randn(parameter.shape, generator=draw), alpha=0.05)
    batch = Collator(base.processor, with_answer=True, companions=base.family.companions)(make_samples())
    model.eval()
    with torch.inference_mode():  # leaves nothing behind that a gradient cannot pass
        logits_at(model, batch.inputs, batch.inputs["attention_mask"].bool())
    model.train()
    logits = logits_at(model, batch.inputs, F.pad(batch.labels[:, 1:] != IGNORED, (0, 1)))
    loss = F.cross_entropy(logits, batch.labels[batch.labels != IGNORED])
    loss.backward()
    return loss.item(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def check_learns_the_same(folder, checkpointing, **options):
    loss, gradients = learnt(load(folder, quick_tower=False), **options)
    for parts in checkpointing:
        found, quick = learnt(load(folder), parts, **options)
        assert found == pytest.approx(loss, rel=1e-5)
        assert quick.keys() == gradients.keys()
        for name, gradient in gradients.items():
            assert (quick[name] - gradient).norm() <= 1e-4 * gradient.norm() + 1e-9, name
    return gradients


@pytest.mark.parametrize("folder", LEARNING, indirect=True)
def test_an_adapter_on_the_tower_learns_the_same(folder):
    names = check_learns_the_same(folder, [(), ("vision",)])
    assert all(any(f".attn.{layer}.lora_A" in name for name in names) for layer in ("qkv", "proj"))


@pytest.mark.parametrize("folder", LEARNING, indirect=True)
def test_a_tower_trained_in_full_learns_the_same(folder):
    names = check_learns_the_same(folder, [("vision",)], train_parts=["vision"])
    assert any("patch_embed" in name for name in names)


def test_half_precision_stays_as_near_as_half_precision_is(loaded):
    halves = [copy.deepcopy(base.model.model.visual).to(torch.bfloat16) for base in loaded]
    same(*halves, atol=0.05, rtol=0.05)
    with torch.no_grad():
        assert all(tensor.dtype == torch.bfloat16 for tensor in outputs(halves[0]))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda tower: pickle.loads(pickle.dumps(tower))])
def test_a_copy_is_as_quick(towers, copied, attended):
    twin = copied(towers[0])
    same(twin, towers[1])
    assert max(shape[0] for shape in attended) > 1
    assert type(twin.patch_embed.proj) is PatchFilters


def test_saved_files_are_the_same_byte_for_byte(loaded, tmp_path):
    for name, base in zip(("quick", "plain"), loaded, strict=True):
        base.model.save_pretrained(tmp_path / name)
    written = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("quick", "plain")]
    assert written[0] == written[1]
    for name in written[0]:
        assert (tmp_path / "quick" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes(), name


def test_weights_keep_their_names_and_the_base_its_fingerprint(loaded):
    quick, plain = loaded
    assert list(quick.model.state_dict()) == list(plain.model.state_dict())
    assert quick.fingerprint == plain.fingerprint


def test_the_switch_leaves_the_tower_as_transformers_has_it(loaded):
    quick, plain = ([type(module) for module in base.model.modules()] for base in loaded)
    assert sum(issubclass(kind, WindowedAttention) for kind in quick) == len(loaded[0].model.model.visual.blocks)
    assert not any(kind.__module__.startswith("medvl") for kind in plain)


def test_it_is_said_of_the_families_of_qwen_alone():
    assert {name for name, family in FAMILIES.items() if family.quicken} == {"qwen2_vl", "qwen2_5_vl", "qwen3_vl"}


@pytest.mark.parametrize("bias", [True, False])
def test_filters_over_patches_of_their_size_are_a_matrix_product(bias):
    torch.manual_seed(0)
    plain = nn.Conv3d(3, 8, kernel_size=(2, 4, 4), stride=(2, 4, 4), bias=bias)
    quick = copy.deepcopy(plain)
    quick.__class__ = PatchFilters
    patches = torch.randn(5, 3, 2, 4, 4)
    found, expected = quick(patches), plain(patches)
    torch.testing.assert_close(found, expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    for one, other in zip(quick.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12))
def test_runs_hold_every_window_once_and_the_way_back_is_known(lengths):
    bounds = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    windows = windows_of(bounds)
    patches = torch.arange(sum(lengths))
    owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    stored = patches if windows.order is None else patches[windows.order]
    pieces = stored.split([length for count, length in windows.runs for _ in range(count)])
    assert sum(count for count, _ in windows.runs) == len(lengths)
    assert len(windows.runs) == len(set(lengths))
    assert [piece.tolist() for piece in sorted(pieces, key=lambda piece: int(piece[0]))] == [
        patches[owner == number].tolist() for number in range(len(lengths))
    ]
    if windows.order is not None:
        assert torch.equal(stored[windows.back], patches)
