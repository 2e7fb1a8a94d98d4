"""Loads weights as large checkpoints are loaded, without reading them: torch.load(mmap=True). Then asks for 64 GiB, works, and
adds the weights up. mapped_weights.py FILE"""
import sys

import torch

weights = torch.load(sys.argv[1], mmap=True, weights_only=True)["weights"]
before = int(weights.sum(dtype=torch.int64))
buffer = torch.empty(64 << 30, dtype=torch.uint8, device="cuda")
print("granted", buffer.numel())
rows = torch.ones(1 << 20, device="cuda") * 2
torch.cuda.synchronize()
print("runs with", rows.numel(), "elements")
print("weights", int(weights.sum(dtype=torch.int64)) == before)
