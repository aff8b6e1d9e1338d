"""lightning, ignite and accelerate: their loops around the same network, and captum's explanations of it."""

import logging
import tempfile
import warnings

import torch
from accelerate import Accelerator
from captum import attr
from common import filled, numbers
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss
from lightning import pytorch as lightning
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
data = TensorDataset(numbers(32, 6), numbers(32, below=3))


def network():
    return filled(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)))


class Classifier(lightning.LightningModule):
    """What lightning's Trainer asks for."""

    def __init__(self):
        super().__init__()
        self.network, self.losses = network(), []

    def training_step(self, batch, index):
        loss = F.cross_entropy(self.network(batch[0]), batch[1])
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        self.log("validation", F.cross_entropy(self.network(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


with tempfile.TemporaryDirectory() as folder:
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, gradient_clip_val=0.5,
        enable_model_summary=False, enable_checkpointing=False, accumulate_grad_batches=2, default_root_dir=folder,
    )  # fmt: skip
    model = Classifier()
    trainer.fit(model, DataLoader(data, batch_size=8), DataLoader(data, batch_size=16))
    print("lightning", *model.losses, trainer.callback_metrics["validation"].item())
    trainer.save_checkpoint(f"{folder}/trained.ckpt")
    print("loaded", *Classifier.load_from_checkpoint(f"{folder}/trained.ckpt").network[2].bias.tolist())

model, losses = network(), []
optimizer, criterion = torch.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss()
engine = create_supervised_trainer(model, optimizer, criterion)
evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy(), "loss": Loss(criterion)})
engine.add_event_handler(Events.ITERATION_COMPLETED, lambda e: losses.append(e.state.output))
engine.run(DataLoader(data, batch_size=8), max_epochs=2)
print("ignite", *losses, *evaluator.run(DataLoader(data, batch_size=16)).metrics.values())

accelerator, model, losses = Accelerator(cpu=True, gradient_accumulation_steps=2), network(), []
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=8))
for inputs, targets in loader:
    with accelerator.accumulate(model):
        loss = F.cross_entropy(model(inputs), targets)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(accelerator.gather(loss).item())
print("accelerate", *losses)

inputs = numbers(4, 6)
for method in (attr.IntegratedGradients, attr.Saliency, attr.DeepLift, attr.FeatureAblation):
    print(method.__name__, *method(network()).attribute(inputs, target=1).flatten().tolist())
