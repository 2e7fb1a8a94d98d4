#!/usr/bin/env python3
"""PyTorch's own way to map weights, under SPARKSHIM_RELIEF=cache.

    relief.py --build BUILD --python PYTHON

PyTorch maps a checkpoint privately and writable. Its first large request is refused, the library drops the weights' page cache and
makes the call again; PyTorch must see a granted call, go on working, and find its weights as they were. Exit 77: the
temporary folder has no page cache of which anything could be told."""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
import check_log  # noqa: E402
from page_cache import reason_not_to_test  # noqa: E402

ELEMENTS = 32 << 20  # of 4 bytes: 128 MiB


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sparkshim-torch-") as folder:
        reason = reason_not_to_test(folder)
        if reason:
            print(f"left out: {reason}")
            sys.exit(77)
        path = pathlib.Path(folder) / "weights.pt"
        subprocess.run([args.python, "-c", f"import torch; torch.save({{'weights': torch.arange({ELEMENTS}, dtype=torch.int32)}}, '{path}')"],
                       check=True, timeout=300)
        os.sync()
        env = {"PATH": os.environ["PATH"], "HOME": folder, "SPARKSHIM_DIR": f"{folder}/state", "SPARKSHIM_RELIEF": "cache"}
        done = subprocess.run([args.build / "bin/gb10sim", HERE / "worlds/refused_once.scn", "--", args.build / "bin/sparkrun",
                               args.python, HERE / "jobs/mapped_weights.py", path],
                              env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500)
        records = [r for log in pathlib.Path(folder).glob("state/runs/*/*.ndjson") for r in check_log.records(log)]
    said = done.stdout.splitlines()
    assert (done.returncode, said) == (0, ["granted 68719476736", "runs with 1048576 elements", "weights True"]), done
    assert "OOM" not in done.stderr and re.search(r"^G3 INFO: cudaMalloc of 64\.0 GiB was refused and then granted", done.stderr, re.M), done.stderr
    (relief,) = [r for r in records if r["k"] == "relief"]
    assert relief["files"] == 1 and relief["dropped"] >= 4 * ELEMENTS, relief
    files = [(pathlib.Path(r["path"]).name, r["how"]) for r in records if r["k"] == "data_file"]
    assert files == [("weights.pt", "mapped")], f"CUDA's libraries, of hundreds of MiB, are no data: {files}"
    assert not [r for r in records if r["k"] == "alloc_failed"], "the job saw no refusal"


if __name__ == "__main__":
    main()
