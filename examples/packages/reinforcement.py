"""Tensors in TensorDicts, ensembles by `vmap`, and reinforcement learning of torchrl."""

import copy
import logging
import tempfile

import torch
from common import filled, numbers, train
from tensordict import TensorDict, tensorclass
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.data import Bounded, Composite, LazyTensorStorage, TensorDictReplayBuffer, Unbounded
from torchrl.envs import Compose, EnvBase, RewardSum, StepCounter, TransformedEnv
from torchrl.modules import MLP, Actor, ProbabilisticActor, QValueActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss, DDPGLoss, DQNLoss, SoftUpdate
from torchrl.objectives.value import GAE

logging.disable(logging.INFO)


def show(name: str, *tensors: torch.Tensor) -> None:
    print(name, *(x for t in tensors for x in t.flatten().tolist()))


data = TensorDict({"a": numbers(3, 4), "b": {"c": numbers(3, 2, seed=2)}, "text": "kept"}, batch_size=[3])
show("indexed", data[1:]["a"], data[torch.tensor([True, False, True])]["b", "c"], data.sum(dim=0)["a"])
show("joined", torch.cat([data, data])["a"].sum(), torch.stack([data, data], 1)["b", "c"].mean())
with tempfile.TemporaryDirectory() as folder:
    data.memmap(folder)
    read = TensorDict.load_memmap(folder)
    print("from files", read["text"], read["a"].sum().item())
show("vmap", torch.vmap(lambda one: one.clone().set("total", one["a"].sum()), 0)(data.exclude("text"))["total"])


@tensorclass
class Example:
    image: torch.Tensor
    label: torch.Tensor


batch = Example(numbers(4, 2), torch.arange(4), batch_size=[4])
show("tensorclass", torch.stack([batch, batch + 1])[1, 2:].image)

networks = [filled(nn.Linear(4, 2), seed) for seed in range(5)]
ensemble, shape = TensorDict.from_modules(*networks, as_module=True), copy.deepcopy(networks[0]).to("meta")


def of_one(parameters: TensorDict, x: torch.Tensor) -> torch.Tensor:
    with parameters.to_module(shape):
        return shape(x)


x = numbers(6, 4, seed=3)
train("ensemble", ensemble, lambda: torch.vmap(of_one, (0, None))(ensemble, x).square().mean())

observations, done = numbers(10, 3), torch.zeros(10, 1, dtype=torch.bool)
following = TensorDict({"observation": observations * 0.9, "reward": numbers(10, 1), "done": done, "terminated": done})
steps = TensorDict({"observation": observations, "action": numbers(10, 2).tanh() * 0.9, "next": following}, [10])
steps["action_log_prob"] = torch.full((10,), -1.0)


def policy() -> ProbabilisticActor:
    network = nn.Sequential(MLP(in_features=3, out_features=4, num_cells=[16]), NormalParamExtractor())
    module = TensorDictModule(network, ["observation"], ["loc", "scale"])
    return filled(ProbabilisticActor(module, ["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True))


def value(inputs: int, *names: str) -> ValueOperator:
    return filled(ValueOperator(MLP(in_features=inputs, out_features=1, num_cells=[16]), in_keys=list(names)))


def total(losses: TensorDict) -> torch.Tensor:
    return sum(loss for name, loss in losses.items() if name.startswith("loss_"))


critic = value(3, "observation")
GAE(gamma=0.99, lmbda=0.95, value_network=critic)(steps)
show("advantages", steps["advantage"])
objective = ClipPPOLoss(policy(), critic, entropy_bonus=False)
train("PPO", objective, lambda: total(objective(steps)))
follower = filled(Actor(nn.Sequential(MLP(in_features=3, out_features=2, num_cells=[16]), nn.Tanh())))
objective = DDPGLoss(follower, value(5, "observation", "action"))
train("DDPG", objective, lambda: total(objective(steps)))
chooser = filled(QValueActor(MLP(in_features=3, out_features=2, num_cells=[16]), action_space="one-hot"))
objective, discrete = DQNLoss(chooser, action_space="one-hot", delay_value=True), steps.exclude("td_error")
discrete["action"] = nn.functional.one_hot(torch.arange(10) % 2, 2)
train("DQN", chooser, lambda: objective(discrete)["loss"])
SoftUpdate(objective, eps=0.9).step()
show("target", objective(discrete)["loss"])


class Counter(EnvBase):
    """Five steps, whose rewards are the sums of the actions."""

    def __init__(self) -> None:
        super().__init__(device="cpu", batch_size=[])
        self.observation_spec = Composite(observation=Unbounded((3,)))
        self.action_spec, self.reward_spec, self.step_number = Bounded(-1, 1, (2,)), Unbounded((1,)), 0

    def _reset(self, state: TensorDict | None = None) -> TensorDict:
        self.step_number = 0
        return TensorDict({"observation": torch.zeros(3)})

    def _step(self, state: TensorDict) -> TensorDict:
        self.step_number += 1
        ended = torch.tensor([self.step_number >= 5])
        observation, reward = torch.full((3,), float(self.step_number)), state["action"].sum().reshape(1)
        return TensorDict({"observation": observation, "reward": reward, "done": ended, "terminated": ended})

    def _set_seed(self, seed: int | None) -> None:
        """Nothing is drawn."""


rollout = TransformedEnv(Counter(), Compose(StepCounter(4), RewardSum())).rollout(10, follower)
show("rollout", rollout["next", "episode_reward"], rollout["step_count"])
buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(100), batch_size=4)
buffer.extend(steps)
print("buffer", len(buffer), *buffer.sample()["next", "observation"].shape)
