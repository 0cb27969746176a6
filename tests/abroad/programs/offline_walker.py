# SPDX-License-Identifier: Apache-2.0
"""Offline reinforcement learning as sequence modelling: a decision transformer on logged episodes of a walking robot. It is told the
return that is still to come, and learns which action led to it."""

import argparse
import random
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from meter import Meter
from torch import nn


def log_episodes(count, state_dim, act_dim, seed=12):
    """Episodes as the D4RL pickles have them: a list of dictionaries of arrays. Some fall early."""
    rng = np.random.default_rng(seed)
    gait = rng.normal(0, 0.3, (state_dim, state_dim + act_dim)).astype(np.float32)
    episodes = []
    for _ in range(count):
        length = int(rng.choice([1000, rng.integers(200, 1000)], p=[0.7, 0.3]))
        actions = np.tanh(rng.standard_normal((length, act_dim), dtype=np.float32).cumsum(0) * 0.1)
        states = np.tanh(rng.standard_normal((length, state_dim), dtype=np.float32).cumsum(0) * 0.05)
        drive = np.concatenate([states, actions], 1) @ gait.T
        rewards = 1 + drive[:, 0] - 1e-3 * np.square(actions).sum(1)
        episodes.append({"observations": states, "actions": actions, "rewards": rewards.astype(np.float32)})
    return episodes


def discount_cumsum(x, gamma):
    out = np.zeros_like(x)
    out[-1] = x[-1]
    for t in reversed(range(x.shape[0] - 1)):
        out[t] = x[t] + gamma * out[t + 1]
    return out


class Replay:
    def __init__(self, episodes, args):
        self.episodes, self.args = episodes, args
        states = np.concatenate([episode["observations"] for episode in episodes])
        self.mean, self.std = states.mean(0), states.std(0) + 1e-6
        lengths = np.array([len(episode["rewards"]) for episode in episodes])
        self.share = lengths / lengths.sum()
        self.rng = np.random.default_rng(args.seed)
        if args.returns == "stored":
            for episode in episodes:
                episode["returns"] = discount_cumsum(episode["rewards"], 1.0)

    def returns(self, episode, start):
        if self.args.returns == "stored":
            return episode["returns"][start:]
        rewards = episode["rewards"][start:]
        if self.args.returns == "cumsum":
            return rewards[::-1].cumsum()[::-1]
        return discount_cumsum(rewards, gamma=1.0)

    def get_batch(self):
        K, batch = self.args.K, []
        for number in self.rng.choice(len(self.episodes), self.args.batch_size, p=self.share):
            episode = self.episodes[number]
            start = random.randint(0, len(episode["rewards"]) - 1)
            states = (episode["observations"][start : start + K] - self.mean) / self.std
            actions = episode["actions"][start : start + K]
            returns = self.returns(episode, start)[:K, None] / self.args.scale
            gap = K - len(states)
            times = np.clip(np.arange(start - gap, start + len(states)), 0, self.args.max_len - 1)
            mask = np.concatenate([np.zeros(gap), np.ones(len(states))])
            padded = [np.concatenate([np.zeros((gap, part.shape[1])), part]) for part in (states, actions, returns)]
            batch.append((*padded, times, mask))
        states, actions, returns, times, mask = (torch.from_numpy(np.stack(column)) for column in zip(*batch))
        return states.float(), actions.float(), returns.float(), times, mask.bool()


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim, act_dim, K, max_len, dim, layers, heads):
        super().__init__()
        self.times = nn.Embedding(max_len, dim)
        self.embed_return, self.embed_state, self.embed_action = (nn.Linear(size, dim) for size in (1, state_dim, act_dim))
        self.norm = nn.LayerNorm(dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, 0.1, "relu", batch_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.act = nn.Sequential(nn.Linear(dim, act_dim), nn.Tanh())
        self.register_buffer("causal", torch.triu(torch.full((3 * K, 3 * K), float("-inf")), 1), persistent=False)

    def forward(self, states, actions, returns, times):
        when = self.times(times)
        tokens = torch.stack([self.embed_return(returns) + when, self.embed_state(states) + when, self.embed_action(actions) + when], 2)
        out = self.body(self.norm(tokens.flatten(1, 2)), mask=self.causal)
        return self.act(out[:, 1::3])  # what comes after a state


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--K", type=int, default=20)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--embed_dim", type=int, default=32)
    parser.add_argument("--n_layer", type=int, default=2)
    parser.add_argument("--n_head", type=int, default=1)
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--warmup_steps", type=int, default=100)
    parser.add_argument("--max_len", type=int, default=1000)
    parser.add_argument("--scale", type=float, default=1000.0)
    parser.add_argument("--num_episodes", type=int, default=300)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--returns", choices=["loop", "cumsum", "stored"], default="loop")
    parser.add_argument("--background", action="store_true", help="a thread makes the next batch meanwhile")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--print_every", type=int, default=40)
    parser.add_argument("--seed", type=int, default=12)
    args = parser.parse_args()
    random.seed(args.seed), torch.manual_seed(args.seed)

    state_dim, act_dim = 17, 6
    replay = Replay(log_episodes(args.num_episodes, state_dim, act_dim), args)
    model = DecisionTransformer(state_dim, act_dim, args.K, args.max_len, args.embed_dim, args.n_layer, args.n_head)
    optimizer = torch.optim.AdamW(model.parameters(), args.learning_rate, weight_decay=1e-4, fused=args.fused)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / args.warmup_steps, 1))
    executor = ThreadPoolExecutor(1)
    ahead = executor.submit(replay.get_batch) if args.background else None
    meter, began = Meter(20, args.batch_size), time.time()
    for step in range(1, args.steps + 1):
        if args.background:
            batch, ahead = ahead.result(), executor.submit(replay.get_batch)
        else:
            batch = replay.get_batch()
        states, actions, returns, times, mask = batch
        predicted = model(states, actions, returns, times)
        loss = nn.functional.mse_loss(predicted[mask], actions[mask])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        scheduler.step()
        if step % args.print_every == 0:
            print(f"step {step}  action error {loss.item():.4f}  {time.time() - began:.1f} s")
        meter.step()
    meter.print()
    executor.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
