#!/usr/bin/env python3
"""What others do to the files of a run while its job runs: the job does not notice, and what is left can be read.

  files.py BUILD JOB STUB library|launcher"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

BUILD, JOB, STUB, HOW = sys.argv[1:]
HUGE = 1 << 40
ENDS_WITH = 4  # scene `work`


def logs(base):
    return list(base.glob("runs/*/*.ndjson"))


def rings(base):
    return list(base.glob("runs/*/*.ring"))


def folder(base):
    (found,) = base.glob("runs/*")
    return found


def instead(paths, make):
    for path in paths:
        path.unlink()
        make(path)


def in_place(paths, write):
    for path in paths:
        with open(path, "r+b") as file:
            write(file, os.path.getsize(path))


def replace_folder(path):
    shutil.rmtree(path)
    path.write_text("no folder")


DEEDS = {
    "nothing": lambda base: None,
    "run removed": lambda base: shutil.rmtree(folder(base)),
    "all removed": shutil.rmtree,
    "run read-only": lambda base: folder(base).chmod(0o500),
    "run is a file": lambda base: replace_folder(folder(base)),
    "base is a file": replace_folder,
    "base moved": lambda base: base.rename(base.with_name("moved")),
    "log emptied": lambda base: in_place(logs(base), lambda file, _: file.truncate(0)),
    "log cut in half": lambda base: in_place(logs(base), lambda file, size: file.truncate(size // 2 + 3)),
    "log of a tebibyte": lambda base: in_place(logs(base), lambda file, _: file.truncate(HUGE)),
    "log overwritten": lambda base: in_place(logs(base), lambda file, _: file.write(os.urandom(500))),
    "log removed": lambda base: instead(logs(base), lambda path: None),
    "log is a pipe": lambda base: instead(logs(base), os.mkfifo),
    "log is a folder": lambda base: instead(logs(base), os.mkdir),
    "log is a device": lambda base: instead(logs(base), lambda path: path.symlink_to("/dev/zero")),
    "ring emptied": lambda base: in_place(rings(base), lambda file, _: file.truncate(0)),
    "ring of a tebibyte": lambda base: in_place(rings(base), lambda file, _: file.truncate(HUGE)),
    "ring overwritten": lambda base: in_place(rings(base), lambda file, size: file.write(os.urandom(size))),
    "ring of ones": lambda base: in_place(rings(base), lambda file, size: file.write(b"\xff" * size)),
    "ring removed": lambda base: instead(rings(base), lambda path: None),
    "ring is a pipe": lambda base: instead(rings(base), os.mkfifo),
    "ring is a folder": lambda base: instead(rings(base), os.mkdir),
}


def wait_for(path, job):
    while not path.exists() and job.poll() is None:
        time.sleep(0.01)


def play(name, place):
    base, stop, ready = place / "logs", place / "stop", place / "ready"
    env = {"PATH": os.environ["PATH"], "HOME": str(place), "SPARKSHIM_DIR": str(base), "TMPDIR": str(place)}
    command = [JOB, STUB, "work", str(stop), str(ready)]
    if HOW == "launcher":
        command = [f"{BUILD}/bin/sparkrun", *command]
    preload = {"LD_PRELOAD": f"{BUILD}/lib/libsparkshim.so"} if HOW == "library" else {}
    with subprocess.Popen(command, env={**env, **preload}, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        wait_for(ready, job)
        DEEDS[name](base)
        time.sleep(0.05)
        stop.touch()
        out, err = job.communicate(timeout=30)
    assert (job.returncode, out, err) == (ENDS_WITH, b"worked\n", b""), (name, job.returncode, out, err)
    for form in ("text", "json"):
        done = subprocess.run([f"{BUILD}/bin/sparkshim", "report", "--format", form], env=env, capture_output=True, timeout=30)
        assert done.returncode in (0, 3), (name, done)
        assert done.returncode == 0 or b"nothing readable" in done.stderr or b"no run" in done.stderr, (name, done)


def main():
    for name in DEEDS:
        with tempfile.TemporaryDirectory(prefix="stress-") as place:
            try:
                play(name, pathlib.Path(place))
            finally:
                subprocess.run(["chmod", "-R", "u+rwx", place], check=False)


if __name__ == "__main__":
    main()
