"""One tensor of 100 GiB, page-locked memory, and all the ways in which PyTorch asks for memory, in one healthy run."""
import torch

x = torch.empty(100 << 30, dtype=torch.uint8, device="cuda")
print("device", x.numel(), torch.cuda.memory_allocated())
del x
torch.cuda.empty_cache()

host = torch.arange(1 << 20, dtype=torch.float32).pin_memory()
device = host.to("cuda", non_blocking=True)
torch.cuda.synchronize()
print("pinned", host.is_pinned(), "copied", torch.equal(device.cpu(), host))

stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    y = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    y.record_stream(stream)
event = torch.cuda.Event(enable_timing=True)
event.record(stream)
event.synchronize()
print("side stream", event.query(), y.numel())

graph = torch.cuda.CUDAGraph()
static = torch.empty(1 << 20, device="cuda")
with torch.cuda.graph(graph):
    static.add_(1)
graph.replay()
torch.cuda.synchronize()
print("graph replayed")
