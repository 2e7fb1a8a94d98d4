"""Runs out of memory: keeps a block a step until a request is refused.
   run_out.py device|pinned [die|catch]     die: the exception ends the program; catch: it goes on smaller"""
import sys

import torch

KIND, WHAT = sys.argv[1:3]
BLOCK = 256 << 20


def block():
    if KIND == "pinned":
        return torch.empty(BLOCK, dtype=torch.uint8, pin_memory=True)
    return torch.empty(BLOCK, dtype=torch.uint8, device="cuda")


torch.cuda.init()
held = []
try:
    while True:
        held.append(block())
except RuntimeError as error:
    print("refused after", len(held), "blocks:", type(error).__mro__[:2])
    if WHAT == "die":
        raise
    print(error)
del held[2:]
torch.cuda.empty_cache()
held.append(block())
print("goes on with", len(held), "blocks")
