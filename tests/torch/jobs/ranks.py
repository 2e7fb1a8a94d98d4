"""Two ranks on two simulated hosts: collectives with right sums, then steps of DistributedDataParallel, FSDP and TP.
   ranks.py: starts itself twice; ranks.py RANK PORT: one of them"""
import os
import socket
import subprocess
import sys

RANKS = 2


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start():
    port = str(free_port())
    ranks = [subprocess.Popen([sys.executable, __file__, str(rank), port], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "NCCL_HOSTID": f"spark-{rank}", "RANK": str(rank),
                                   "WORLD_SIZE": str(RANKS)}) for rank in range(RANKS)]
    outputs = [rank.communicate(timeout=240)[0] for rank in ranks]
    for output in outputs:
        print(output, end="")
    sys.exit(max(rank.returncode for rank in ranks))


def on_device(values, kind):
    import torch
    return torch.tensor(values, dtype=kind).cuda()


def collectives(rank):
    import torch
    import torch.distributed as dist
    for kind in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8):
        x = on_device([1.5 * (rank + 1) if kind.is_floating_point else 3 * (rank + 1), 2], kind)
        dist.all_reduce(x)
        print(rank, "all_reduce", kind, x.cpu().tolist())
    for op in ("MIN", "MAX", "PRODUCT", "AVG"):
        x = on_device([float(rank + 2), -float(rank)], torch.float32)
        dist.all_reduce(x, op=getattr(dist.ReduceOp, op))
        print(rank, op, x.cpu().tolist())
    x = on_device([10 + rank], torch.int32)
    dist.broadcast(x, src=1)
    parts = [torch.empty(3, dtype=torch.int32, device="cuda") for _ in range(RANKS)]
    dist.all_gather(parts, on_device([rank, rank + 10, rank + 20], torch.int32))
    print(rank, "broadcast", x.cpu().tolist(), "all_gather", [p.cpu().tolist() for p in parts])
    out = torch.empty(2, dtype=torch.float32, device="cuda")
    dist.reduce_scatter_tensor(out, on_device([1.0, 2.0, 3.0, 4.0], torch.float32) if rank == 0
                               else on_device([10.0, 20.0, 30.0, 40.0], torch.float32))
    swapped = torch.empty(2, dtype=torch.int64, device="cuda")
    dist.all_to_all_single(swapped, on_device([rank * 10, rank * 10 + 1], torch.int64))
    print(rank, "reduce_scatter", out.cpu().tolist(), "all_to_all", swapped.cpu().tolist())
    message = on_device([rank + 5], torch.int32)
    if rank == 0:
        dist.send(message, 1)
    else:
        dist.recv(message, 0)
    print(rank, "message", message.cpu().tolist())
    big = on_device([float(rank + 1)] * (3 << 20), torch.float32)
    dist.all_reduce(big)
    print(rank, "12 MiB", big.cpu().unique().tolist())


def parallel(rank):
    import torch
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.ones(4, 64).cuda()).sum().backward()
        optimizer.step()
    print(rank, "DistributedDataParallel: 10 steps")


def sharded(rank):
    import torch
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cuda", (RANKS,))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    for name, wrap in (("fully_shard", lambda m: fully_shard(m, mesh=mesh)),
                       ("tensor parallel", lambda m: parallelize_module(m, mesh, plan))):
        model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).cuda()
        wrap(model)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(4, 64).cuda()).sum().backward()
            optimizer.step()
        print(rank, name + ": 3 steps")


def rank_main(rank, port):
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS,
                            device_id=torch.device("cuda", 0))
    collectives(rank)
    half = dist.new_group([0, 1])
    x = on_device([rank + 1], torch.int32)
    dist.all_reduce(x, group=half)
    print(rank, "new group", x.cpu().tolist())
    parallel(rank)
    sharded(rank)
    dist.destroy_process_group()


if len(sys.argv) == 1:
    start()
rank_main(int(sys.argv[1]), sys.argv[2])
