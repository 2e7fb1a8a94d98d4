"""Reads the free figure and goes by it. free_figure.py NEEDED_GIB: gives up, as loaders do, when it is too small."""
import sys

import torch

free, total = torch.cuda.mem_get_info()
print("free", free, "total", total)
needed = float(sys.argv[1]) * (1 << 30)
if free < needed:
    sys.exit("needs %.1f GiB, exceeds available %.1f GiB" % (needed / (1 << 30), free / (1 << 30)))
x = torch.zeros(1 << 20, device="cuda")
print("runs with", x.numel(), "elements")
