"""A GPU job in CPython, for whole.py and tests/killers: ctypes on libcuda.so.1. What it prints does not depend on anything of ours.

  gpu_job.py STEP...     alloc=N  refused  closeall  steal=DIR  cut=GLOB  fill=FILE  fork  kill  wait=FILE  exit=N
                         victim  eat=MIB  loader=MIB
"""
import ctypes
import glob
import os
import pathlib
import signal
import sys
import time

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
pointer = ctypes.c_uint64()
stolen = []


def start():
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0


def alloc(n):
    """n allocations and frees"""
    take, give, size, out = cuda.cuMemAlloc_v2, cuda.cuMemFree_v2, ctypes.c_size_t(4096), ctypes.byref(pointer)
    for _ in range(int(n)):
        if take(out, size) or give(pointer):
            sys.exit("refused")
    print(n, "allocations")


def refused(_):
    print("error", cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 50)))


def closeall(_):
    os.closerange(3, 1024)


def steal(folder):
    os.closerange(3, 1024)
    os.makedirs(folder, exist_ok=True)
    stolen.extend(os.open(f"{folder}/{i}", os.O_RDWR | os.O_CREAT) for i in range(80))


def exit_(status):
    for fd in stolen:
        print(os.fstat(fd).st_size, end=" ")
    sys.exit(int(status))


def cut(pattern):
    for path in glob.glob(pattern):
        os.truncate(path, 0)


def fill(path):
    with open(path, "wb", buffering=0) as f:
        for size in (1 << 16, 1 << 12, 1 << 9, 1):
            try:
                while f.write(bytes(size)) == size:
                    pass
            except OSError:
                pass


def fork(_):
    sys.stdout.flush()
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def kill(_):
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def victim(_):
    """whoever looks for a process to kill finds this one first"""
    pathlib.Path("/proc/self/oom_score_adj").write_text("1000")


def eat(mib):
    """host memory, touched MiB by MiB"""
    held = [b"x" * (1 << 20) for _ in range(int(mib))]
    print("ate", len(held), "MiB", flush=True)


def loader(mib):
    """a child that reads data for us eats; without it we cannot go on"""
    child = os.fork()
    if not child:
        eat(mib)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("the loader is gone")


def wait(path):
    """until somebody makes the file"""
    print("waiting", flush=True)
    for _ in range(2000):
        if pathlib.Path(path).exists():
            return
        time.sleep(0.01)
    sys.exit("nobody came")


start()
for word in sys.argv[1:]:
    name, _, value = word.partition("=")
    {"exit": exit_}.get(name, globals().get(name))(value)
