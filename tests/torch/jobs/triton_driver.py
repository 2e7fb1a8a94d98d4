"""Triton's own driver module (built by the C compiler at first use): device properties, and a kernel compiled by the
wheel's ptxas, loaded and launched. It computes nothing on the simulated Spark, so no result is looked at."""
import torch
import triton
import triton.language as tl
from triton.runtime import driver


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


target = driver.active.get_current_target()
print("target", target.backend, target.arch, "device", driver.active.get_current_device())
properties = driver.active.utils.get_device_properties(0)
print("multiprocessors", properties["multiprocessor_count"], "shared memory", properties["max_shared_mem"])
x = torch.zeros(4096, device="cuda")
kernel = add[(4,)](x, x, x, x.numel(), BLOCK=1024)
torch.cuda.synchronize()
print("launched", kernel.metadata.name, "registers known:", kernel.n_regs >= 0)
