# SPDX-License-Identifier: Apache-2.0
"""Soft actor-critic runs the heat pump of an office building: temperatures of all zones, the weather, who is in. In one file."""

import argparse
import copy
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from meter import Meter

parser = argparse.ArgumentParser()
parser.add_argument("--zones", type=int, default=20)
parser.add_argument("--hidden", type=int, default=256)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--replay-size", type=int, default=50_000)
parser.add_argument("--start-steps", type=int, default=1000)
parser.add_argument("--steps", type=int, default=640)
parser.add_argument("--replay", choices=["list", "stack", "arrays"], default="list")
parser.add_argument("--optimizer", choices=["foreach", "fused"], default="foreach")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--print-every", type=int, default=50)
args = parser.parse_args()


class Building:
    """Zones exchange heat with each other and the outside; an action sets the pump and each zone's valve."""

    def __init__(self, zones):
        self.rng, self.zones = np.random.default_rng(0), zones
        self.walls = self.rng.dirichlet(np.ones(zones), zones) / 4
        self.reset()

    def observe(self):
        hours = np.sin((self.hour + np.arange(24)) / 24 * 6.283)
        return np.concatenate([self.temperature - 21, self.setpoint - 21, self.occupied, hours]).astype(np.float32)

    def reset(self):
        self.hour, self.temperature = 0, self.rng.normal(19, 1, self.zones)
        self.setpoint, self.occupied = self.rng.choice([18.0, 21.0], self.zones), self.rng.random(self.zones) < 0.6
        return self.observe()

    def step(self, action):
        heat = (action[1:] + 1) * (action[0] + 1)
        outside = 5 + 4 * np.sin(self.hour / 24 * 6.283)
        self.temperature += self.walls @ self.temperature - self.temperature / 4 + 0.02 * (outside - self.temperature) + 0.3 * heat
        self.hour += 1
        miss = np.abs(self.temperature - self.setpoint) * self.occupied
        return self.observe(), float(-miss.mean() - 0.1 * heat.mean()), self.hour % 96 == 0


class ReplayMemory(deque):
    def sample(self, count):
        columns = zip(*random.sample(self, count))
        if args.replay == "stack":
            return [torch.from_numpy(np.asarray(column, np.float32)) for column in columns]
        return [torch.tensor(column, dtype=torch.float32) for column in columns]


class ReplayArrays:
    def __init__(self, capacity):
        self.columns, self.count = None, 0

    def append(self, transition):
        if not self.columns:
            self.columns = [np.zeros((args.replay_size, *np.shape(part)), np.float32) for part in transition]
        for column, part in zip(self.columns, transition):
            column[self.count % args.replay_size] = part
        self.count += 1

    def sample(self, count):
        rows = np.random.randint(0, min(self.count, args.replay_size), count)
        return [torch.from_numpy(column[rows]) for column in self.columns]


def mlp(*sizes):
    layers = [layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def act(obs):
    mean, log_std = actor(obs).chunk(2, -1)
    normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
    raw = normal.rsample()
    action = raw.tanh()
    return action, (normal.log_prob(raw) - torch.log1p(-action.pow(2) + 1e-6)).sum(-1)


def smallest(networks, obs, action):
    return torch.min(*[network(torch.cat([obs, action], 1)).squeeze(1) for network in networks])


random.seed(0), np.random.seed(0), torch.manual_seed(0)
torch.set_num_threads(args.threads)
env = Building(args.zones)
obs, actions = env.observe(), args.zones + 1
actor = mlp(len(obs), args.hidden, args.hidden, 2 * actions)
critics = nn.ModuleList([mlp(len(obs) + actions, args.hidden, args.hidden, 1) for _ in range(2)])
targets = copy.deepcopy(critics)
actor_opt, critic_opt = (torch.optim.Adam(net.parameters(), 3e-4, **{args.optimizer: True}) for net in (actor, critics))
replay = ReplayArrays(args.replay_size) if args.replay == "arrays" else ReplayMemory(maxlen=args.replay_size)
meter, rewards = Meter(30, args.batch_size), deque(maxlen=96)
for t in range(args.start_steps + args.steps):
    with torch.no_grad():
        action = np.random.uniform(-1, 1, actions) if t < args.start_steps else act(torch.from_numpy(obs))[0].numpy()
    next_obs, reward, done = env.step(action)
    replay.append((obs, action, reward, next_obs, done))
    rewards.append(reward)
    obs = env.reset() if done else next_obs
    if t < args.start_steps:
        continue

    o, a, r, o2, d = replay.sample(args.batch_size)
    with torch.no_grad():
        a2, logp2 = act(o2)
        y = r + 0.97 * (1 - d) * (smallest(targets, o2, a2) - 0.1 * logp2)
    critic_loss = sum(F.mse_loss(critic(torch.cat([o, a], 1)).squeeze(1), y) for critic in critics)
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    new, logp = act(o)
    actor_loss = (0.1 * logp - smallest(critics, o, new)).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    with torch.no_grad():
        torch._foreach_lerp_(list(targets.parameters()), list(critics.parameters()), 0.005)
    if t % args.print_every == 0:
        print(f"{t}: reward {np.mean(rewards):.3f} critic {critic_loss.item():.3f} actor {actor_loss.item():.3f}")
    meter.step()
meter.print()
