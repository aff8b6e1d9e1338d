"""What programs do within a training step besides computing: schedules, modes, scalers, counts, logs, clocks."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import logging
import math
import time
from typing import Any

import eagerjit as torch
from eagerjit import nn, optim
from eagerjit.nn import functional as F
from eagerjit.optim import lr_scheduler
from tests.soundness.framework import FELL_BACK, attempt, case


class World:
    """A model with all that depends on its mode, an optimizer, and batches of several sizes."""

    def __init__(self, **options: Any):
        self.model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4, 2))
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, **options)

    def gradients(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        return loss

    def step(self, x, y):
        loss = self.gradients(x, y)
        self.optimizer.step()
        return loss

    def run(self, step, times=6):
        """Results of calls on batches, with the parameters and learning rates after each."""
        for i in range(times):
            n = 3 + i % 3
            x = torch.linspace(-1.0, 1.0, 3 * n).reshape(n, 3) + 0.1 * i
            result = step(x, torch.arange(n) % 2)
            yield result, [*self.model.state_dict().values()], self.optimizer.param_groups[0]["lr"]


def with_schedule(jit, make, after=lambda schedule: None):
    world = World()
    schedule = make(world.optimizer)

    def step(x, y):
        loss = world.step(x, y)
        schedule.step()
        return loss.detach(), after(schedule)

    yield from world.run(jit(step))
    yield schedule.last_epoch, schedule.get_last_lr()


@case(versions=3)
def a_schedule_of_steps(jit):
    yield from with_schedule(jit, lambda o: lr_scheduler.StepLR(o, 2, 0.5))


@case(versions=3)
def a_schedule_of_cosines(jit):
    yield from with_schedule(jit, lambda o: lr_scheduler.CosineAnnealingLR(o, 10), lambda s: s.get_last_lr()[0])


@case(versions=3)
def a_schedule_of_a_function(jit):
    yield from with_schedule(jit, lambda o: lr_scheduler.LambdaLR(o, lambda e: 0.9**e), lambda s: s.last_epoch)


@case(versions=4)
def a_schedule_in_one_cycle(jit):
    yield from with_schedule(jit, lambda o: lr_scheduler.OneCycleLR(o, 0.3, total_steps=8))


@case(versions=4)
def a_schedule_that_looks_at_the_loss(jit):
    world = World()
    schedule = lr_scheduler.ReduceLROnPlateau(world.optimizer, patience=0, threshold=0.2)

    def step(x, y):
        loss = world.step(x, y)
        schedule.step(loss)
        return loss.detach()

    yield from world.run(jit(step))
    yield schedule.best, schedule.num_bad_epochs


@case(versions=3)
def a_learning_rate_read_from_the_optimizer(jit):
    world = World()

    def step(x, y):
        world.step(x, y)
        group = world.optimizer.param_groups[0]
        group["lr"] = group["lr"] * 0.5
        return group["lr"], group.get("momentum"), group["lr"] * x.sum()

    yield from world.run(jit(step))
    world.optimizer.param_groups[0]["lr"] = 0.7
    yield from world.run(jit(step), 2)


@case(versions=2)
def training_switched_on_inside(jit):
    world = World()

    def step(x, y):
        world.model.train()
        return world.step(x, y).detach()

    step = jit(step)
    yield from world.run(step, 3)
    world.model.eval()
    yield from world.run(step, 3)
    yield [m.training for m in world.model.modules()]


@case(versions=2)
def evaluation_after_the_step(jit):
    world = World()

    def step(x, y):
        world.model.train()
        loss = world.step(x, y)
        world.model.eval()
        with torch.no_grad():
            accuracy = (world.model(x).argmax(1) == y).float().mean()
        return loss.detach(), accuracy, world.model.training, world.model[1].training

    yield from world.run(jit(step))
    yield [m.training for m in world.model.modules()]


@case(versions=3)
def evaluation_and_back(jit):
    world = World()

    def evaluate(x, y):
        before = world.model.training
        world.model.eval()
        with torch.inference_mode():
            out = world.model(x)
        world.model.train(before)
        return out.clone()

    evaluate = jit(evaluate)
    yield from world.run(evaluate, 3)
    world.model.eval()
    yield from world.run(evaluate, 3)
    yield [m.training for m in world.model.modules()]


@case(versions=3)
def a_part_switched_to_evaluation(jit):
    world = World()

    def step(x, y):
        world.model[1].eval()
        return world.step(x, y).detach()

    step = jit(step)
    for _ in range(3):
        world.model.train()
        yield from world.run(step, 2)
        yield [m.training for m in world.model.modules()]


@case
def a_module_with_its_own_train(jit):
    class Frozen(nn.BatchNorm1d):
        def train(self, mode=True):
            return super().train(False)

    model = nn.Sequential(nn.Linear(2, 2), Frozen(2))

    def f(x):
        model.train()
        return model(x)

    f = jit(f)
    for n in (2, 3):
        yield f(torch.ones(n, 2)), [m.training for m in model.modules()]


@case(versions=2)
def a_gradient_scaler(jit):
    world = World()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    def step(x, y):
        world.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(world.model(x), y)
        scaler.scale(loss).backward()
        scaler.step(world.optimizer)
        scaler.update()
        return loss.detach()

    for result in world.run(jit(step)):
        yield result, scaler.get_scale(), scaler.state_dict()


@case(versions=1)
def a_gradient_scaler_that_has_scaled_nothing(jit):
    weight = nn.Parameter(torch.ones(2))
    scaler, optimizer = torch.amp.GradScaler("cpu", init_scale=8.0), torch.optim.SGD([weight], lr=0.5)

    @jit
    def step(x):
        scaler.unscale_(optimizer)
        return x * 2

    weight.grad = torch.ones(2)
    yield attempt(step, torch.ones(2))
    scaler.scale(weight.sum())
    yield attempt(step, torch.ones(2)), weight.grad
    scaler.step(optimizer)
    scaler.update()
    yield attempt(step, torch.ones(2)), weight.grad


@case(versions=4)
def a_gradient_scaler_that_finds_infinity(jit):
    world = World()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)

    def step(x, y):
        world.optimizer.zero_grad()
        loss = F.cross_entropy(world.model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(world.optimizer)
        norm = nn.utils.clip_grad_norm_(world.model.parameters(), 1.0)
        scaler.step(world.optimizer)
        scaler.update()
        return loss.detach(), norm

    step = jit(step)
    for scale in (1.0, float("inf"), 1.0, 1.0, 1.0, float("inf")):
        yield step(torch.ones(3, 3) * scale, torch.arange(3) % 2), scaler.state_dict()
        yield [*world.model.parameters()]


@case(versions=1)
def norms_of_gradients_kept(jit):
    world, norms = World(), []

    def step(x, y):
        loss = world.gradients(x, y)
        norm = nn.utils.clip_grad_norm_(world.model.parameters(), 0.5)
        world.optimizer.step()
        norms.append(norm.item())
        return loss.detach(), float(norm)

    yield from world.run(jit(step))
    yield norms


@case(versions=1)
def a_norm_from_numbers(jit):
    world = World()

    def step(x, y):
        loss = world.gradients(x, y)
        total = 0.0
        for p in world.model.parameters():
            total += p.grad.norm(2).item() ** 2
        world.optimizer.step()
        return loss.detach(), total**0.5, math.sqrt(total), math.log(loss.item())

    yield from world.run(jit(step))


@case(versions=2)
def counts_that_begin_inside(jit):
    world = World()
    counter, counts = collections.Counter(), collections.defaultdict(float)

    def step(x, y):
        loss = world.step(x, y)
        counter["steps"] += 1
        counts["loss"] += loss.item()
        return loss.detach()

    for result in world.run(jit(step)):
        yield result, counter, counts


@case(versions=3)
def the_best_so_far(jit):
    world, best = World(), {"loss": 1e9, "times": 0}

    def step(x, y):
        loss = world.step(x, y)
        if loss.item() < best["loss"]:
            best["loss"] = loss.item()
            best["times"] += 1
        return loss.detach()

    for result in world.run(jit(step)):
        yield result, best


@case(versions=1)
def a_loss_that_must_be_finite(jit):
    world = World()

    def step(x, y):
        loss = world.gradients(x, y)
        assert loss.isfinite()
        assert torch.isfinite(loss).all(), "the loss is not finite"
        if math.isnan(loss.item()) or math.isinf(loss.item()) or not math.isfinite(loss):
            raise ValueError("the loss is not finite")
        world.optimizer.step()
        return loss.detach()

    step = jit(step)
    yield from world.run(step)


@case
def a_loss_that_is_not_finite(jit):
    world = World()

    def step(x, y):
        loss = world.gradients(x, y)
        if not math.isfinite(loss.item()):
            raise ValueError("the loss is not finite")
        world.optimizer.step()
        return loss.detach()

    step = jit(step)
    yield from world.run(step, 2)
    yield attempt(step, torch.full((3, 3), float("nan")), torch.arange(3) % 2)
    yield from world.run(step, 2)


@dataclasses.dataclass
class Outcome:
    loss: Any
    size: int
    rate: float = 0.0


@case(versions=2)
def a_dataclass_of_results(jit):
    world = World()

    def step(x, y):
        loss = world.step(x, y)
        return Outcome(loss.detach(), len(x), world.optimizer.param_groups[0]["lr"])

    yield from world.run(jit(step))


@case(versions=2)
def averages_of_weights(jit):
    world = World()
    moving = copy.deepcopy(world.model)
    averaged = optim.swa_utils.AveragedModel(world.model)

    def step(x, y):
        loss = world.step(x, y)
        with torch.no_grad():
            for a, b in zip(moving.parameters(), world.model.parameters(), strict=True):
                a.lerp_(b, 0.1)
        averaged.update_parameters(world.model)
        return loss.detach()

    for result in world.run(jit(step)):
        yield result, [*moving.parameters()], [*averaged.parameters()], averaged.n_averaged


@case(versions=3)
def gradients_added_over_steps(jit):
    world, counts = World(), {"steps": 0}

    def step(x, y):
        loss = F.cross_entropy(world.model(x), y) / 2
        loss.backward()
        counts["steps"] += 1
        if counts["steps"] % 2 == 0:
            world.optimizer.step()
            world.optimizer.zero_grad()
        return loss.detach()

    yield from world.run(jit(step), 8)


@case(outcome=FELL_BACK)
def the_date(jit):
    def f(x):
        return x + (datetime.datetime.now().year > 2000), datetime.date.today().year > 2000

    f = jit(f)
    yield f(torch.ones(2)), f(torch.ones(2))


@case(versions=1)
def the_day(jit):
    f = jit(lambda x: (x + datetime.date.today().year // 1000, datetime.date.today()))
    for _ in range(4):
        yield f(torch.ones(2))


@case(versions=2)
def losses_kept_in_lists(jit):
    world, losses, tensors = World(), [], collections.deque(maxlen=3)

    def step(x, y):
        loss = world.step(x, y)
        losses.append(loss.item())
        tensors.append(loss.detach())
        return loss.detach()

    for result in world.run(jit(step)):
        yield result, losses, tensors


class Meter:
    def __init__(self):
        self.total, self.count, self.average = 0.0, 0, 0.0

    def update(self, value, count=1):
        self.total += value * count
        self.count += count
        self.average = self.total / self.count


@case(versions=2)
def a_meter_of_the_users(jit):
    world, meter = World(), Meter()

    def step(x, y):
        loss = world.step(x, y)
        meter.update(loss.item(), x.size(0))
        return loss.detach()

    for result in world.run(jit(step)):
        yield result, meter


@case(versions=3)
def a_report_every_third_step(jit):
    world, counts = World(), {"steps": 0}

    def step(x, y):
        loss = world.step(x, y)
        counts["steps"] += 1
        if counts["steps"] % 3 == 0:
            print("step", counts["steps"], "loss", loss.item())
        return loss.detach()

    yield from world.run(jit(step), 8)


@case(versions=1)
def a_log_of_norms(jit):
    world = World()
    logger = logging.getLogger("eagerjit.soundness.steps")
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False

    def step(x, y):
        loss = world.gradients(x, y)
        norm = nn.utils.clip_grad_norm_(world.model.parameters(), 1.0)
        world.optimizer.step()
        logger.info("norm %.4f loss %.4f", norm.item(), loss.item())
        return loss.detach()

    yield from world.run(jit(step))
    logger.removeHandler(handler)
    yield records


@case(versions=1)
def gradients_clipped_by_value(jit):
    world = World()

    def step(x, y):
        loss = world.gradients(x, y)
        nn.utils.clip_grad_value_(world.model.parameters(), 0.05)
        world.optimizer.step()
        return {"loss": loss.item(), "rate": world.optimizer.param_groups[0]["lr"]}

    yield from world.run(jit(step))


@case(versions=1)
def a_step_with_a_closure(jit):
    world = World()
    yield from world.run(jit(lambda x, y: world.optimizer.step(lambda: world.gradients(x, y)).detach()))


@case(versions=1)
def a_step_under_autocast(jit):
    world = World()

    def step(x, y):
        world.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(world.model(x), y)
        loss.backward()
        world.optimizer.step()
        return loss.detach()

    yield from world.run(jit(step))


@case(versions=1)
def a_step_on_a_device_of_choice(jit):
    world = World()

    def step(x, y):
        x, y = x.to("cpu", non_blocking=True), y.to(torch.device("cpu"))
        loss = world.step(x, y)
        if torch.cuda.is_available() and loss.is_cuda:
            torch.cuda.synchronize()
        return loss.detach().cpu()

    yield from world.run(jit(step))


@case(versions=2)
def parameters_frozen_inside(jit):
    world = World()

    def step(x, y):
        for p in world.model[0].parameters():
            p.requires_grad_(False)
        return world.step(x, y).detach()

    yield from world.run(jit(step))
    yield [p.requires_grad for p in world.model.parameters()]


@case(versions=2)
def a_warm_up_of_the_learning_rate(jit):
    world, counts = World(), {"steps": 0}

    def step(x, y):
        counts["steps"] += 1
        for group in world.optimizer.param_groups:
            group["lr"] = 0.2 * min(1.0, counts["steps"] / 5)
        return world.step(x, y).detach()

    yield from world.run(jit(step), 8)


@case(versions=2)
def a_step_left_out_where_the_loss_is_no_number(jit):
    world = World()

    def step(x, y):
        loss = world.gradients(x, y)
        if torch.isnan(loss):
            return None
        world.optimizer.step()
        return loss.detach()

    step = jit(step)
    yield from world.run(step, 2)
    yield step(torch.full((3, 3), float("nan")), torch.arange(3) % 2), [*world.model.parameters()]
    yield from world.run(step, 2)


@case(versions=1)
def a_step_that_times_itself(jit):
    world, times = World(), []

    def step(x, y):
        begun = time.perf_counter()
        loss = world.step(x, y)
        times.append(len(x) / (time.perf_counter() - begun))
        return loss.detach()

    yield from world.run(jit(step))
    plausible = [0.0 < t < 1e9 for t in times]
    times.clear()
    yield plausible


@case(versions=1)
def a_confusion_matrix(jit):
    world, matrix = World(), torch.zeros(2, 2)

    def step(x, y):
        loss = world.step(x, y)
        found = world.model(x).argmax(1)
        matrix.index_put_((y, found), torch.ones(()), accumulate=True)
        return loss.detach(), (found == y).float().mean().item()

    for result in world.run(jit(step)):
        yield result, matrix


@case(versions=2)
def noise_from_a_seed_of_the_step(jit):
    world, counts = World(), {"steps": 0}

    def step(x, y):
        torch.manual_seed(1)
        counts["steps"] += 1
        return world.step(x + 0.1 * torch.randn_like(x), y).detach()

    yield from world.run(jit(step))
    yield torch.rand(2)


@case(versions=2)
def results_as_numbers_in_a_dataclass(jit):
    world = World()

    def step(x, y):
        loss = world.step(x, y)
        return Outcome(float(loss), x.shape[0], max(0.001, 0.5 * loss.item() ** 2))

    yield from world.run(jit(step))


@case(versions=4)
def momentum_that_cycles_before_and_after_steps(jit):
    for late in (False, True):
        model = nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        schedule = lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=10)

        @jit
        def step(x):
            loss = model(x).square().mean()  # noqa: B023
            optimizer.zero_grad()  # noqa: B023
            loss.backward()
            for update in (optimizer, schedule) if late else (schedule, optimizer):  # noqa: B023
                update.step()
            return loss

        for i in range(6):
            yield step(torch.ones(4, 3) * i), list(model.parameters()), optimizer.param_groups[0]["betas"]
