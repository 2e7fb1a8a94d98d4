"""Trains a block of Linear, LayerNorm and attention for 200 steps with SGD and with AdamW. Losses mean nothing where
kernels compute nothing; they are printed because they must be the same with and without the shim."""
import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, dim=-1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def train(name, make, steps=200):
    torch.manual_seed(0)
    model = nn.Sequential(Block(), nn.Linear(64, 64), nn.GELU(), Block(), nn.Linear(64, 1)).cuda()
    optimizer = make(model.parameters())
    data = torch.randn(8, 32, 64)
    for step in range(steps):
        x = data.cuda(non_blocking=True)
        loss = functional.mse_loss(model(x), x.mean(dim=-1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(name, "step", step + 1, "loss", loss.item())
    torch.cuda.synchronize()


print(torch.cuda.get_device_name(), torch.cuda.get_device_capability(), torch.version.cuda)
train("sgd", lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9))
train("adamw", lambda p: torch.optim.AdamW(p, lr=1e-3))
print("peak", torch.cuda.max_memory_allocated(), "retries", torch.cuda.memory_stats()["num_alloc_retries"])
