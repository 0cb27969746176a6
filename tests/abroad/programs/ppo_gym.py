# SPDX-License-Identifier: Apache-2.0
"""PPO on a Gymnasium environment in one file: rollouts of a few environments one after the other, then epochs of updates."""

import argparse
import time

import gymnasium as gym
import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.distributions import Categorical

parser = argparse.ArgumentParser()
parser.add_argument("--num-envs", type=int, default=4)
parser.add_argument("--num-steps", type=int, default=32)
parser.add_argument("--iterations", type=int, default=14)
parser.add_argument("--update-epochs", type=int, default=4)
parser.add_argument("--render-ms", type=float, default=2.0, help="what the simulator needs for a frame")
parser.add_argument("--vector", choices=["sync", "async"], default="sync")


class Slow(gym.Wrapper):
    def __init__(self, env, ms):
        super().__init__(env)
        self.seconds = ms / 1e3

    def step(self, action):
        time.sleep(self.seconds)
        return super().step(action)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))


def main():
    args = parser.parse_args()
    torch.manual_seed(1)
    make = [lambda: Slow(gym.make("CartPole-v1"), args.render_ms)] * args.num_envs
    envs = gym.vector.AsyncVectorEnv(make) if args.vector == "async" else gym.vector.SyncVectorEnv(make)
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    observed = torch.from_numpy(envs.reset(seed=1)[0])
    meter = Meter(2, args.num_envs * args.num_steps)
    for iteration in range(args.iterations):
        obs, actions, logprobs, rewards, values = [], [], [], [], []
        for _ in range(args.num_steps):
            with torch.no_grad():
                chosen = Categorical(logits=agent.actor(observed))
                action = chosen.sample()
                values.append(agent.critic(observed).squeeze(1))
            obs.append(observed)
            actions.append(action)
            logprobs.append(chosen.log_prob(action))
            seen, reward, *_ = envs.step(action.numpy())
            rewards.append(torch.from_numpy(np.asarray(reward, np.float32)))
            observed = torch.from_numpy(seen)
        returns, running = [], torch.zeros(args.num_envs)
        for reward in reversed(rewards):
            running = reward + 0.99 * running
            returns.insert(0, running)
        obs, actions, logprobs, values, returns = (torch.cat(part) for part in (obs, actions, logprobs, values, returns))
        for _ in range(args.update_epochs):
            for chosen in torch.randperm(len(obs)).split(len(obs) // 4):
                now = Categorical(logits=agent.actor(obs[chosen]))
                ratio = (now.log_prob(actions[chosen]) - logprobs[chosen]).exp()
                advantage = returns[chosen] - values[chosen]
                loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean() - 0.01 * now.entropy().mean()
                loss = loss + 0.5 * (agent.critic(obs[chosen]).squeeze(1) - returns[chosen]).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        print(f"iteration={iteration} reward={torch.stack(rewards).sum():.0f}")
        meter.step()
    envs.close()
    meter.print()


if __name__ == "__main__":
    main()
