"""What is in the page cache, counted without sparkshim: cachestat(2)."""
import ctypes
import mmap
import os

CACHESTAT = 451  # since Linux 6.5, the same number on every machine
libc = ctypes.CDLL(None, use_errno=True)


def cached(path):
    """Bytes of the file that are in the page cache; None where the kernel does not tell."""
    whole, counts = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    with open(path, "rb") as file:
        if libc.syscall(CACHESTAT, file.fileno(), whole, counts, 0) < 0:
            return None
    return counts[0] * mmap.PAGESIZE


def most(n, whole):
    """`n` is `whole`, as nearly as can be asked for: a machine may take cold cache back by itself at any time (pressure,
    DAMON), and beside what was meant a few pages of others may go."""
    return whole * 3 // 4 <= n <= whole + whole // 32


def file_system(path):
    """Type of the file system that holds `path`."""
    best = ("", "")
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        for line in mounts:
            _, where, kind = line.split()[:3]
            if os.path.realpath(path).startswith(where) and len(where) >= len(best[0]):
                best = (where, kind)
    return best[1]


def reason_not_to_test(folder):
    """Why nothing could be told about files in `folder`; None: it can."""
    kind = file_system(folder)
    if kind in ("tmpfs", "ramfs"):
        return f"{folder} lies on {kind}: it has no page cache that could go"
    if cached(__file__) is None:
        return "this kernel has no cachestat(2), or does not tell this user"
    return None
