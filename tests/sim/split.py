#!/usr/bin/env python3
"""split.py BIN: each class of the split agrees with the world's own figure within 1 % of MemTotal.

Worlds are drawn at random: sizes of the machine, page cache, processes that hold GPU memory or an amount that NVML
does not tell, memory that a crash has left behind, CMA areas, HugeTLB. `sparkshim preflight --json` looks at each. What
is not in any class is "not accounted for", and all of it adds up to MemTotal.
"""
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

CLASSES = ("free", "cma", "cache", "shmem", "anon_job", "anon_others", "huge", "pinned", "device_job", "device_others",
           "device_nobody", "kernel", "rest")
NO_JOB = ("anon_job", "pinned", "device_job")
GIB = 1 << 30
MIB = 1 << 20
# The driver's own, in the range that was measured on idle machines (facts/memory.md: 1.1 to 1.35 GiB).
OWN = (int(1.1 * GIB), int(1.46 * GIB))


def draw(rnd):
    """One Spark: figures in bytes by class of the split, and the lines of a scenario."""
    total = rnd.choice([121.6, 119.7, 127.5]) * GIB
    left = total - 3 * GIB
    world = {"kernel": 0, "own": rnd.randint(*OWN)}

    def part(most):
        nonlocal left
        size = int(rnd.choice([0, rnd.random(), rnd.random() ** 3]) * min(most, max(left, 0)))
        left -= size
        return size // 4096 * 4096

    cached, world["shmem"] = part(total * .8), part(2 * GIB)
    buffers, kreclaimable = part(5 * GIB), part(3 * GIB)
    world["cache"] = cached + buffers + kreclaimable
    world["anon_others"], sunreclaim, tables = part(total * .5), part(3 * GIB), part(GIB)
    world["kernel"] = sunreclaim + tables
    pages = part(16 * GIB) // (2 * MIB) if rnd.random() < .3 else 0
    world["huge"] = pages * 2 * MIB
    holders = [part(total * .6) for _ in range(rnd.randint(0, 4))]
    untold = [part(total * .3) for _ in range(rnd.random() < .3)]
    lost = part(total * .5) if rnd.random() < .5 else 0
    world["device_others"] = sum(holders)
    nobody = not untold
    world["device_nobody"] = lost if nobody else None
    world["rest"] = world["own"] + sum(untold) + (0 if nobody else lost)
    taken = sum(world[c] for c in ("cache", "shmem", "anon_others", "kernel", "huge", "device_others"))
    free = int(total) - taken - world["own"] - sum(untold) - lost
    world["cma"] = rnd.choice([0, 0, rnd.randint(0, int(free))]) // 4096 * 4096
    world["free"] = free - world["cma"]
    world["total"] = int(total)
    meminfo = {"MemTotal": int(total), "MemFree": free, "MemAvailable": free + world["cache"], "Buffers": buffers,
               "Cached": cached + world["shmem"], "Shmem": world["shmem"], "KReclaimable": kreclaimable,
               "AnonPages": world["anon_others"], "SUnreclaim": sunreclaim, "PageTables": tables, "KernelStack": 0,
               "Percpu": 0, "CmaFree": world["cma"], "CmaTotal": world["cma"] + MIB if world["cma"] else 0}
    lines = [f"{key} {size // 1024}" for key, size in meminfo.items()] + [f"HugePages_Total {pages}"]
    lines += [f"process {7000001 + i} name holder-{i} service memory {size // 1024} "
              f"type {rnd.choice(['compute', 'graphics'])}" for i, size in enumerate(holders)]
    lines += [f"process {7000101 + i} name secret-{i} service memory N/A" for i in range(len(untold))]
    return world, lines + ["pace 200"]


def look(folder, bin_, lines):
    path = os.path.join(folder, "world.scn")
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")
    command = [os.path.join(bin_, "gb10sim"), path, "--", os.path.join(bin_, "sparkshim"), "preflight", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return json.loads(result.stdout)["memory"]


def beside_a_job(rnd, folder, bin_):
    """A job takes device and page-locked memory, then its launcher looks: the latest split in its log."""
    device, pinned, holder = rnd.randint(1, 40), rnd.randint(1, 20), rnd.randint(1, 30)
    total, own, free = int(121.6 * GIB), rnd.randint(*OWN), int(rnd.uniform(90, 95) * GIB) // 4096 * 4096
    world = {"total": total, "device_job": device * GIB, "pinned": pinned * GIB, "device_others": holder * GIB,
             "cache": int(rnd.uniform(1, 8) * GIB) // 4096 * 4096, "kernel": GIB, "shmem": 0, "huge": 0, "cma": 0}
    world["anon_others"] = total - free - world["cache"] - GIB - own
    world.update(free=free - (device + pinned + holder) * GIB, rest=own, device_nobody=0)
    lines = [f"MemTotal {total // 1024}", f"MemFree {(free - holder * GIB) // 1024}", f"Cached {world['cache'] // 1024}",
             f"MemAvailable {(free - holder * GIB + world['cache']) // 1024}", "Buffers 0", "Shmem 0", "KReclaimable 0",
             f"AnonPages {world['anon_others'] // 1024}", f"SUnreclaim {MIB}", "PageTables 0", "KernelStack 0", "Percpu 0",
             f"process 7000001 name holder service memory {holder}GiB"]
    path = os.path.join(folder, "world.scn")
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")
    # The second look shows a job that has grown: it is written, and a split with it.
    job = [os.path.join(bin_, "jobs", "alloc_rt13"), "work", "sleep:3s", f"cudaMalloc:{device}GiB!",
           f"cudaHostAlloc:{pinned}GiB!", "work", "sleep:15s"]
    state = os.path.join(folder, "state")
    shutil.rmtree(state, True)
    subprocess.run([os.path.join(bin_, "gb10sim"), path, "--", os.path.join(bin_, "sparkshim"), "run", "--run-id", "r", "--",
                    *job], env={**os.environ, "SPARKSHIM_DIR": state}, capture_output=True, timeout=60, check=True)
    (log,) = glob.glob(os.path.join(state, "runs", "r", "launcher-*.ndjson"))
    with open(log, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    return world, [r for r in records if r["k"] == "split" and r["why"] != "end"][-1]


def differences(world, memory):
    for name in CLASSES:
        got, wanted = memory.get(name), world.get(name, 0 if name in NO_JOB else None)
        if (got is None) != (wanted is None) or (got is not None and abs(got - wanted) > world["total"] / 100):
            yield f"{name}: {got}, the world's own figure is {wanted}"
    if sum(memory.get(name, 0) for name in CLASSES) != memory["total"]:
        yield "the classes do not add up to MemTotal"


def main():
    rnd = random.Random(20260115)
    bad = 0
    with tempfile.TemporaryDirectory(prefix="sparkshim-split-") as folder:
        for i in range(40):
            world, lines = draw(rnd)
            for line in differences(world, look(folder, sys.argv[1], lines)):
                print(f"world {i}: {line}")
                bad += 1
            if bad:
                sys.exit("\n".join(lines))
        for i in range(4):
            world, split = beside_a_job(rnd, folder, sys.argv[1])
            for line in differences({**world, "anon_job": 0}, split):
                print(f"job {i}: {line}\n{world}\n{split}")
                bad += 1
    if bad:
        sys.exit(1)
    print("40 worlds agree, and 4 beside a job")


if __name__ == "__main__":
    main()
