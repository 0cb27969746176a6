# SPDX-License-Identifier: Apache-2.0
"""From a product to its reactants, both as SMILES: an encoder-decoder. The optimizer lives in host memory, as the old card was small."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from meter import Meter

ap = argparse.ArgumentParser(description="Train a retrosynthesis transformer on USPTO-50k (here: strings of the same lengths).")
ap.add_argument("--d_model", type=int, default=512)
ap.add_argument("--layers", type=int, default=4)
ap.add_argument("--heads", type=int, default=8)
ap.add_argument("--vocab", type=int, default=320)
ap.add_argument("--src_len", type=int, default=128)
ap.add_argument("--tgt_len", type=int, default=128)
ap.add_argument("--batch", type=int, default=96)
ap.add_argument("--steps", type=int, default=70)
ap.add_argument("--warmup_steps", type=int, default=4000)
ap.add_argument("--offload", action=argparse.BooleanOptionalAction, default=True, help="moments and fp32 weights in host memory")
ap.add_argument("--pin_offload", action="store_true", help="host copies in page-locked memory")
ap.add_argument("--fused", action="store_true")
ap.add_argument("--tf32", action="store_true")
ap.add_argument("--report", type=int, default=25)
opt = ap.parse_args()
torch.manual_seed(42)
torch.backends.cuda.matmul.allow_tf32 = opt.tf32


class Retro(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(opt.vocab, opt.d_model)
        self.place = nn.Parameter(torch.randn(max(opt.src_len, opt.tgt_len), opt.d_model) * 0.02)
        self.body = nn.Transformer(
            opt.d_model, opt.heads, opt.layers, opt.layers, 4 * opt.d_model, 0.0, F.gelu, batch_first=True, norm_first=True
        )
        self.generator = nn.Linear(opt.d_model, opt.vocab)
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(opt.tgt_len - 1), persistent=False)

    def embed(self, ids):
        return self.tokens(ids) + self.place[: ids.shape[1]]

    def forward(self, product, reactants):
        y = self.body(self.embed(product), self.embed(reactants), tgt_mask=self.causal, tgt_is_causal=True)
        return self.generator(y)


class HostAdam:
    """Adam on fp32 copies of the weights in host memory: gradients go down, weights come up again."""

    def __init__(self, params, lr, betas, pin):
        self.params = list(params)
        self.master = [p.detach().cpu() for p in self.params]
        self.grads = [torch.zeros_like(m) for m in self.master]
        if pin:
            self.master, self.grads = [m.pin_memory() for m in self.master], [g.pin_memory() for g in self.grads]
        for m, g in zip(self.master, self.grads):
            m.requires_grad_()
            m.grad = g
        self.inner = torch.optim.Adam(self.master, lr, betas=betas, fused=opt.fused)
        self.param_groups = self.inner.param_groups

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p, g in zip(self.params, self.grads):
            g.copy_(p.grad, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        self.inner.step()
        for p, m in zip(self.params, self.master):
            p.copy_(m, non_blocking=True)


def noam(step):
    return opt.d_model**-0.5 * min((step + 1) ** -0.5, (step + 1) * opt.warmup_steps**-1.5)


model = Retro().cuda()
print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters")
if opt.offload:
    optim = HostAdam(model.parameters(), 1.0, (0.9, 0.998), opt.pin_offload)
else:
    optim = torch.optim.Adam(model.parameters(), 1.0, betas=(0.9, 0.998), fused=opt.fused)

products = torch.randint(3, opt.vocab, (2048, opt.src_len), device="cuda")
reactants = torch.randint(3, opt.vocab, (2048, opt.tgt_len), device="cuda")
meter = Meter(10, opt.batch, torch.cuda.synchronize)
for step in range(opt.steps):
    at = step * opt.batch % (2048 - opt.batch)
    src, tgt = products[at : at + opt.batch], reactants[at : at + opt.batch]
    for group in optim.param_groups:
        group["lr"] = noam(step)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(src, tgt[:, :-1])
    loss = F.cross_entropy(logits.float().flatten(0, 1), tgt[:, 1:].flatten(), label_smoothing=0.1)
    optim.zero_grad()
    loss.backward()
    optim.step()
    if step % opt.report == 0:
        print(f"step {step:5d} loss {loss.item():.4f} lr {noam(step):.2e}")
    meter.step()
meter.print()
