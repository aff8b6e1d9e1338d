"""Actor-critic learns to balance a pole on a cart; the environment is in this file."""

import math
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from common import arguments, draw_weights, report
from torch.distributions import Categorical

GAMMA = 0.99
SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class CartPole:
    """A cart of 1 kg on a track of 4.8 m, a pole of 1 m; one step is 0.02 s."""

    def __init__(self, random):
        self.random = random

    def reset(self):
        self.state = self.random.uniform(-0.05, 0.05, 4)
        return self.state.astype(np.float32)

    def step(self, action):
        _, x_dot, theta, theta_dot = self.state
        force = 10.0 if action == 1 else -10.0
        sin, cos = math.sin(theta), math.cos(theta)
        temp = (force + 0.05 * theta_dot**2 * sin) / 1.1
        theta_acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        x_acc = temp - 0.05 * theta_acc * cos / 1.1
        self.state = self.state + 0.02 * np.array([x_dot, x_acc, theta_dot, theta_acc])
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 12 * math.pi / 180
        return self.state.astype(np.float32), 1.0, done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 64)
        self.action_head = nn.Linear(64, 2)
        self.value_head = nn.Linear(64, 1)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


def select_action(model, state, random):
    probs, state_value = model(torch.from_numpy(state))
    m = Categorical(probs)
    # libraries draw random numbers of their own: the action comes from NumPy's
    action = torch.tensor(int(random.random() > m.probs[0].item()))
    model.saved_actions.append(SavedAction(m.log_prob(action), state_value))
    return action.item()


def finish_episode(model, optimizer):
    R, returns = 0, []
    for r in model.rewards[::-1]:
        R = r + GAMMA * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + np.finfo(np.float32).eps.item())
    policy_losses, value_losses = [], []
    for (log_prob, value), R in zip(model.saved_actions, returns, strict=True):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:]
    del model.saved_actions[:]
    return loss


def main():
    args = arguments(__doc__, 200)
    random = np.random.default_rng(4)
    env, model = CartPole(random), draw_weights(Policy())
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    running_reward = 10
    for episode in range(args.steps):
        state, ep_reward = env.reset(), 0
        for _ in range(1, 500):
            state, reward, done = env.step(select_action(model, state, random))
            model.rewards.append(reward)
            ep_reward += reward
            if done:
                break
        running_reward = 0.05 * ep_reward + 0.95 * running_reward
        report(episode, finish_episode(model, optimizer))
    print(f"running reward {running_reward:.1f}")


if __name__ == "__main__":
    main()
