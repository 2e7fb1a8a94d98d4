#!/usr/bin/env python3
"""Every name that a library of the PyTorch wheel binds from cuBLAS, cuBLASLt, NCCL, the CUDA runtime or the driver is
exported by the stand-ins, under the same version. symbols.py --build BUILD --python PYTHON"""
import argparse
import pathlib
import subprocess
import sys

# nvblas is a drop-in for CPU BLAS that nothing in the wheel loads; it alone binds cublasXt.
LEFT_OUT = {"libnvblas.so.13"}
PREFIXES = ("cublas", "nccl", "cuda", "cu", "__cuda", "nvml")


def symbols(path, *options):
    done = subprocess.run(["nm", "-D", *options, str(path)], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        yield line.split()[-1].replace("@@", "@")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", required=True)
    options = parser.parse_args()
    packages = pathlib.Path(subprocess.run(
        [options.python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        capture_output=True, text=True, check=True).stdout.strip())
    standins = {path.name: path for path in (options.build / "lib/gb10sim").glob("lib*.so*")}
    ours = {name for path in standins.values() for name in symbols(path, "--defined-only")}
    wheel = [path for path in packages.rglob("*.so*") if path.is_file() and not path.is_symlink()
             and path.name not in LEFT_OUT and path.name not in standins]
    theirs = {name for path in wheel for name in symbols(path, "--defined-only")}
    missing = {}
    bound = 0
    for path in wheel:
        for name in symbols(path, "--undefined-only"):
            if name.startswith(PREFIXES) and name not in theirs:
                bound += 1
                if name not in ours:
                    missing.setdefault(name, path.name)
    for name, user in sorted(missing.items()):
        print(f"{name}: bound by {user}, in no stand-in")
    print(f"{len(wheel)} libraries bind {bound} names")
    return 1 if missing or bound < 300 else 0


if __name__ == "__main__":
    sys.exit(main())
