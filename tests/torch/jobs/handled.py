"""Refusals that the job gets over: PyTorch frees its cache and the same request succeeds; a probe for the largest size
that fits catches OutOfMemoryError and goes on smaller. handled.py SIZE_GIB (of memory that is free at the start)"""
import sys

import torch

GIB = 1 << 30
FREE = int(sys.argv[1])


def gib(n):
    return torch.empty(n * GIB, dtype=torch.uint8, device="cuda")


def retried():
    blocks = [gib(1) for _ in range(FREE // 2)]
    del blocks
    big = gib(FREE - FREE // 4)
    print("after PyTorch's retry:", big.numel() // GIB, "GiB, retries", torch.cuda.memory_stats().get("num_alloc_retries"))


def probed():
    for size in (8 * FREE, 4 * FREE, 2 * FREE, FREE // 2):
        try:
            block = gib(size)
        except torch.OutOfMemoryError as error:
            print("refused:", error)
            continue
        print("fits:", block.numel() // GIB, "GiB")


retried()
torch.cuda.empty_cache()
probed()
