# SPDX-License-Identifier: Apache-2.0
"""DQN with a replay buffer: each step plays `--envs` environments on the CPU and learns once from a sampled batch on the GPU."""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


class Simulator:
    """A physics simulator answers after some time, for all environments at once where it is asked for all."""

    def __init__(self, envs, ms):
        self.envs, self.seconds, self.random = envs, ms / 1e3, np.random.default_rng(0)

    def step(self, actions):
        time.sleep(self.seconds)
        return self.random.random((self.envs, 64), dtype=np.float32), np.asarray(actions, np.float32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, default=4)
    parser.add_argument("--sim-ms", type=float, default=6)
    parser.add_argument("--train-frequency", type=int, default=1, help="environment steps for each gradient step")
    parser.add_argument("--simulate-every", type=int, default=1, help="gradient steps for each environment step")
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--precision", choices=["fp32", "tf32"], default="tf32")
    parser.add_argument("--target-network-frequency", type=int, default=100)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high" if args.precision == "tf32" else "highest")

    def network():
        return nn.Sequential(nn.Linear(64, args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, 6)).cuda()

    q, target = network(), network()
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-4, fused=True)
    simulator = Simulator(args.envs, args.sim_ms)
    observations = torch.zeros(50_000, 64, device="cuda")
    rewards, filled = torch.zeros(50_000, device="cuda"), args.batch_size
    seen = np.zeros((args.envs, 64), np.float32)
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step in range(args.steps):
        if step % args.simulate_every == 0:
            with torch.no_grad():
                actions = q(torch.from_numpy(seen).cuda()).argmax(1).cpu().numpy()
            seen, reward = simulator.step(actions)
            at = torch.arange(filled, filled + args.envs, device="cuda") % 50_000
            observations[at], rewards[at] = torch.from_numpy(seen).cuda(), torch.from_numpy(reward).cuda()
            filled += args.envs
        chosen = torch.randint(0, min(filled, 50_000), (args.batch_size,), device="cuda")
        with torch.no_grad():
            wanted = rewards[chosen] + 0.99 * target(observations[chosen]).amax(1)
        loss = F.mse_loss(q(observations[chosen]).amax(1), wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.target_network_frequency == 0:
            target.load_state_dict(q.state_dict())
            print(f"global_step={step} td_loss={loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
