"""The loss covers the answer only, checkpoints hold the adapter only, and adapters train in training mode."""

import pytest
import pytorch_lightning as pl
import torch

from medvl.batching.collator import IGNORED, Batch, Collator
from medvl.batching.loading import QuestionLoader
from medvl.batching.prompt import answer_tokens, question_text, worded_ending
from medvl.config.schema import LoraConfig, OptimConfig
from medvl.errors import TrainingError
from medvl.models.adapter import attach_adapter
from medvl.models.base import load_base
from medvl.models.pictures import row_inputs
from medvl.training.sft_module import SftModule, answer_loss, rate_factor, supervised_tokens


@pytest.fixture
def module(tiny_config, demo_data):
    base = load_base(tiny_config)
    model = attach_adapter(base, LoraConfig(r=4, alpha=8, dropout=0.5, parts=["language", "vision"]), seed=0)
    return SftModule(model, OptimConfig(lr=1e-3), answer_tokens(demo_data.processor).letter_ids)


@pytest.fixture
def batch(tiny_base, demo_samples):
    return Collator(tiny_base.processor, with_answer=True)(demo_samples[:4])


def test_the_loss_equals_the_models_own_loss_over_the_same_labels(module, batch):
    module.model.eval()
    with torch.no_grad():
        ours = answer_loss(module.model, batch)
        inputs = row_inputs(module.model, batch.inputs, batch.picture_of)
        theirs = module.model(**inputs, labels=batch.labels).loss
    assert float(ours) == pytest.approx(float(theirs), abs=1e-5)


def test_a_batch_without_a_supervised_token_is_refused_by_name(module, batch):
    empty = Batch(batch.items, batch.inputs, torch.full_like(batch.labels, IGNORED), batch.answer_position)
    with pytest.raises(TrainingError, match=batch.items[0].item_id):
        answer_loss(module.model, empty)


def test_a_loss_that_is_not_finite_stops_and_names_the_items(module, batch):
    with torch.no_grad():
        module.model.get_base_model().lm_head.weight[0] = float("nan")
    with pytest.raises(TrainingError, match=batch.items[1].item_id):
        answer_loss(module.model, batch)


def quiet_trainer(folder, callback, **settings):
    """A Trainer that writes and prints nothing."""
    return pl.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
        default_root_dir=folder,
        **settings,
    )


class _Watch(pl.Callback):
    def __init__(self):
        self.modes = []

    def on_train_batch_end(self, trainer, module, *_):
        self.modes.append(all(m.training for name, m in module.named_modules() if "lora_dropout" in name))


def test_adapters_are_in_training_mode_after_each_validation(module, demo_data, tmp_path):
    watch = _Watch()
    trainer = quiet_trainer(
        tmp_path,
        watch,
        max_steps=4,
        val_check_interval=2,
        check_val_every_n_epoch=None,
        limit_val_batches=1,
        num_sanity_val_steps=0,
    )
    trainer.fit(module, datamodule=demo_data)
    assert watch.modes == [True] * 4
    path = tmp_path / "adapter.ckpt"
    trainer.save_checkpoint(path)
    state = torch.load(path, weights_only=True)["state_dict"]
    trainable = {name: p for name, p in module.named_parameters() if p.requires_grad}
    assert set(state) == set(trainable)
    weights = sum(p.numel() * 4 for p in trainable.values())
    assert path.stat().st_size < 4 * weights + 2**20


class _Gradients(pl.Callback):
    def on_train_end(self, trainer, module):
        self.seen = torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])


def gradients_of_one_step(module, batches, tmp_path):
    watch = _Gradients()
    module.model.zero_grad()
    trainer = quiet_trainer(tmp_path, watch, max_steps=1, accumulate_grad_batches=len(batches), gradient_clip_val=1e6)
    trainer.fit(module, train_dataloaders=QuestionLoader(batches, batch_size=None))
    return watch.seen


def test_accumulated_batches_weigh_each_supervised_token_alike(tiny_config, tiny_base, demo_samples, tmp_path):
    """Answers of 1 and of 60 words: a batch of four gives the gradient of four of one, and of one and three."""
    collate = Collator(tiny_base.processor, with_answer=True)
    samples = demo_samples[:4]
    answers = ["A", " ".join(["head"] * 60), "B", " ".join(["femur"] * 59)]
    endings = [worded_ending(tiny_base.processor, collate.tokens, answer) for answer in answers]

    def rows(*numbers):
        chosen = [samples[number] for number in numbers]
        texts = [question_text(sample.item) for sample in chosen]
        return collate.rows(chosen, texts, [endings[number] for number in numbers])

    found = []
    for divided in (((0, 1, 2, 3),), ((0,), (1,), (2,), (3,)), ((0,), (1, 2, 3))):
        model = attach_adapter(
            load_base(tiny_config), LoraConfig(r=4, dropout=0.0, parts=["language", "vision"]), seed=0
        )
        module = SftModule(model, OptimConfig(lr=1e-3), {})
        found.append(gradients_of_one_step(module, [rows(*numbers) for numbers in divided], tmp_path))
    assert supervised_tokens(rows(1)) > 20 * supervised_tokens(rows(0))
    assert found[0].norm() > 0
    for other in found[1:]:
        assert (other - found[0]).norm() <= 1e-4 * found[0].norm()


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_the_rate_rises_then_follows_the_schedule(schedule):
    factors = [rate_factor(step, 100, 10, schedule) for step in range(101)]
    assert factors[0] == pytest.approx(0.1)
    assert factors[:10] == sorted(factors[:10])
    assert max(factors) == pytest.approx(1.0)
    assert factors[-1] == pytest.approx(1.0 if schedule == "constant" else 0.0)
    assert all(0 <= f <= 1 for f in factors)


def test_the_rate_needs_no_warmup():
    assert rate_factor(0, 10, 0, "cosine") == 1.0
