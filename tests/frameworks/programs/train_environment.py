# SPDX-License-Identifier: Apache-2.0
"""No loader at all: reinforcement learning, where each batch comes from steps of an environment."""

import time

from common import Waits, finish
from slow_data import torch

network = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)


class Environment:
    def step(self, action):
        end = time.thread_time() + 0.001
        while time.thread_time() < end:  # physics
            pass
        return torch.randn(4), float(action)


environment, waits = Environment(), Waits()
environment.step = waits.timed(environment.step)
state = torch.zeros(4)
for update in range(40):
    rewards, log_probabilities = [], []
    for _ in range(8):
        policy = torch.distributions.Categorical(logits=network(state))
        action = policy.sample()
        log_probabilities.append(policy.log_prob(action))
        state, reward = environment.step(action)
        rewards.append(reward)
    optimizer.zero_grad()
    (-torch.stack(log_probabilities) * torch.tensor(rewards)).mean().backward()
    optimizer.step()
finish(waits, 40)
