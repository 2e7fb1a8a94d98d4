#!/usr/bin/env python3
"""A small training run, for trying sparkshim: a network of linear layers and attention learns a toy task.

    sparkrun python3 examples/train.py
    sparkrun python3 examples/train.py --leak 2048      # runs out of memory, and sparkshim says why

Uses the GPU where there is one. --leak MIB keeps that much more memory at every step, as a job does that stores the
loss with its graph; on a real Spark it takes all memory there is, so close what you want to keep.
On the simulated Spark kernels compute nothing: the losses it prints there mean nothing.
"""
import argparse

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, dim=-1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def build(width: int, device: torch.device) -> nn.Module:
    return nn.Sequential(Block(width, 4), nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width),
                         nn.Linear(width, 1)).to(device)


def main() -> None:
    parser = argparse.ArgumentParser(description="a small training run, for trying sparkshim")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--optimizer", choices=("adamw", "sgd"), default="adamw")
    parser.add_argument("--leak", type=int, default=0, metavar="MIB", help="memory kept at every step")
    options = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print("device:", torch.cuda.get_device_name() if device.type == "cuda" else "cpu")
    model = build(options.width, device)
    make = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.SGD
    optimizer = make(model.parameters(), lr=1e-3)

    kept = []
    for step in range(options.steps):
        x = torch.randn(options.batch, options.length, options.width, device=device)
        loss = nn.functional.mse_loss(model(x), x.mean(dim=-1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if options.leak:
            kept.append(torch.empty(options.leak << 20, dtype=torch.uint8, device=device))
        if step % 20 == 0 or step == options.steps - 1:
            print(f"step {step}: loss {loss.item():.4f}")
    print("done")


if __name__ == "__main__":
    main()
