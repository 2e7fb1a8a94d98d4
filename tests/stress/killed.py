#!/usr/bin/env python3
"""SIGKILL at any moment: of the job, of the launcher, of both. What is left can be read, and says no more than is known.

  killed.py BUILD JOB STUB TIMES"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

BUILD, JOB, STUB, TIMES = sys.argv[1:]
SCENES = (["threads", "3000"], ["children", "30"], ["ends", "_exit"], ["again", "20"], ["processes", "50"])
chance = random.Random(11)


def children(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_witness(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text() == "sparkrun-group\n"
    except OSError:
        return True


def kill(process, whom):
    """Whether a job got it, as far as can be told from here."""
    try:
        if whom == "group":
            os.killpg(process.pid, signal.SIGKILL)
        elif whom == "job":
            (job,) = [pid for pid in children(process.pid) if not is_witness(pid)]
            os.kill(job, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, ValueError):
        return False
    return whom == "job"


def report(env, form):
    return subprocess.run([f"{BUILD}/bin/sparkshim", "report", "--format", form], env=env, capture_output=True, timeout=60)


def check_process(p):
    if p["end"] == "exit":
        assert p.get("signal") is None, p
    now = time.time() * 1e6
    assert now - 600e6 < p.get("last_activity", now) < now + 5e6, p
    assert p["end"] != "running" or os.path.exists(f"/proc/{p['pid']}"), p


def check(env, base, status, job_was_killed, what):
    found = report(env, "json")
    if found.returncode == 3:
        sizes = [path.stat().st_size for path in base.rglob("*.ndjson")]
        assert not any(sizes), (what, found, sizes)
        return
    known = json.loads(found.stdout)
    assert report(env, "text").returncode == found.returncode, what
    for p in known["processes"]:
        check_process(p)
    for finding in known["findings"]:
        ends = [p for p in known["processes"] if p["pid"] == finding["pid"]]
        assert finding["verdict"] != "FAIL" or any(p.get("status") not in (None, 0) and p.get("signal") != 9 for p in ends), (what, known)
    if job_was_killed and status == -signal.SIGKILL:
        assert known["jobs"][0]["signal"] == signal.SIGKILL, (what, known["jobs"])


def play(i, base):
    whom, scene = chance.choice(["library", "job", "launcher", "group"]), chance.choice(SCENES)
    delay = chance.choice([0.01, 0.04, 0.1, 0.4, 1]) * chance.random()
    env = {"PATH": os.environ["PATH"], "HOME": str(base), "SPARKSHIM_DIR": str(base), "SPARKSHIM_STDERR": "0"}
    launcher = [] if whom == "library" else [f"{BUILD}/bin/sparkrun"]
    preload = {"LD_PRELOAD": f"{BUILD}/lib/libsparkshim.so"} if whom == "library" else {}
    with subprocess.Popen([*launcher, JOB, STUB, *scene], env={**env, **preload}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          stdin=subprocess.DEVNULL, start_new_session=True) as process:
        time.sleep(delay)
        job_was_killed = kill(process, whom)
        status = process.wait(60)
    time.sleep(0.1)  # children of the job end by themselves
    check(env, base, status, job_was_killed, (i, whom, scene, delay, status))


def main():
    for i in range(int(TIMES)):
        with tempfile.TemporaryDirectory(prefix="stress-", ignore_cleanup_errors=True) as base:
            play(i, pathlib.Path(base))


if __name__ == "__main__":
    main()
