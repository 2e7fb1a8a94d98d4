#!/usr/bin/env python3
"""The library's own thread (plain LD_PRELOAD): the job does the same without it, and cannot see it.

own_thread.py BUILD CASE   every case runs thread_job on the simulated Spark bare, with the library, and with SPARKSHIM_THREAD=0
"""
import glob
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[1]).resolve()
IDLE = "include gb10-idle.scn\n"


def is_of_thread(record):
    return record["k"] == "sample" and record["why"] not in ("refused", "large")


class Ran:
    def __init__(self, folder):
        self.folder, self.records = folder, []
        for path in sorted(glob.glob(f"{folder}/state/runs/*/*.ndjson")):
            with open(path, encoding="utf-8") as log:
                self.records.append([json.loads(line) for line in log if line.endswith("\n")])

    def samples(self):
        """Those of the thread: beside a refusal or a large request the job's own threads look."""
        return [r for log in self.records for r in log if is_of_thread(r)]


class Case:
    def __init__(self, folder):
        self.folder = folder

    def command(self, words, how, world=IDLE, output=None):
        place = f"{self.folder}/{how}"
        os.makedirs(place, exist_ok=True)
        with open(f"{place}/world.scn", "w", encoding="ascii") as f:
            f.write(world)
        env = {"PATH": os.environ["PATH"], "HOME": place, "SPARKSHIM_DIR": f"{place}/state"}
        if how == "off":
            env["SPARKSHIM_THREAD"] = "0"
        if how == "launcher":
            return env, [BUILD / "bin/gb10sim", f"{place}/world.scn", "--", BUILD / "bin/sparkshim", "run", "--",
                         BUILD / "bin/jobs/thread_job", *words]
        library = "" if how == "bare" else f"{BUILD}/lib/libsparkshim.so "
        start = f'LD_PRELOAD="{library}$LD_PRELOAD" exec "$@"' + (f" > {output}" if output else "")
        return env, [BUILD / "bin/gb10sim", f"{place}/world.scn", "--", "sh", "-c", start, "sh", BUILD / "bin/jobs/thread_job", *words]

    def run(self, words, how="with", world=IDLE):
        env, command = self.command(words, how, world)
        done = subprocess.run(command, env=env, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        done.ran = Ran(f"{self.folder}/{how}")
        return done

    def begin(self, words, how="with", output=None):
        """Started, for looking at it while it runs. Returns it and the job's process id."""
        env, command = self.command(words, how, output=output)
        job = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        for _ in range(500):
            found = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(job.pid)], capture_output=True, text=True).stdout
            for line in found.splitlines():
                if "jobs/thread_job" in line and "sh -c" not in line:
                    return job, int(line.split()[0])
            time.sleep(0.01)
        raise AssertionError("the job did not start")

    def same(self, *words, samples=True):
        """The job with the library is the job without; with it, it has samples, or none."""
        bare, own, off = (self.run(words, how) for how in ("bare", "with", "off"))
        for done in (own, off):
            assert (done.returncode, done.stdout, done.stderr) == (bare.returncode, bare.stdout, bare.stderr), (bare, done)
        assert not off.ran.samples(), off.ran.samples()
        if samples is not None:
            assert bool(own.ran.samples()) == samples, own.ran.records
        return own


USED = ("thread", "cuda", "meminfo", "pass:5", "meminfo")


def case_samples(case):
    done = case.same(*USED, "exit:3")
    samples = done.ran.samples()
    assert samples[0]["why"] == "start" and len(samples) >= 4, samples
    times = [r["t"] for r in samples]
    assert times == sorted(times)
    assert samples[-1]["job_processes"] == 1 and samples[-1]["job_threads"] == 4, samples[-1]
    (log,) = done.ran.records
    assert [r["k"] for r in log if r["k"] in ("exit", "sample")][-1] == "exit", log


def case_one_thread(case):
    """A process that has one thread keeps it alone."""
    case.same("cuda", "meminfo", "pass:5", "meminfo", "exit:0", samples=False)


def case_no_context(case):
    case.same("thread", "pass:5", "exit:0", samples=False)


def case_launcher(case):
    done = case.run([*USED, "exit:3"], "launcher")
    assert done.returncode == 3, done
    for log in done.ran.records:
        own = [r for r in log if r["k"] == "sample"]
        assert bool(own) == (log[0]["writer"] == "launcher"), log[0]


def case_ends(case):
    for end in ("exit:0", "exit:77", "_exit:5", "kill:9", "kill:15", "kill:11", "exec"):
        case.same(*USED, "atexit", end, samples=None)


def case_main_leaves(case):
    """By pthread_exit: the process ends with its last thread, which must not be ours."""
    done = case.same(*USED, "atexit", "leave")
    assert b"at exit" in done.stdout, done
    (log,) = done.ran.records
    assert log[-1]["k"] == "exit", log[-1]


def case_destructors(case):
    case.same(*USED, "destructors", "pass:2", "destructors", "exit:0")


def case_signals(case):
    """One that is waited for, one that is handled: neither goes to our thread."""
    case.same(*USED, *["sigwait", "handler"] * 5, "exit:0")


def case_setuid(case):
    """libc changes all threads by a signal, and waits for each."""
    case.same(*USED, "setuid", "exit:0")


def case_children(case):
    done = case.same(*USED, "fork", "vfork", "fork", "meminfo", "exit:0")
    parents = [log for log in done.ran.records if any(map(is_of_thread, log))]
    assert len(parents) == 1, [log[0] for log in done.ran.records]  # children have one thread


def case_no_process_more(case):
    """RLIMIT_NPROC: the thread cannot be made, and nothing else happens."""
    if os.getuid():
        return
    os.chmod(case.folder, 0o777)
    for how in ("bare", "with"):
        env, command = case.command(["thread", "nproc", *USED[1:], "exit:4"], how)
        os.chmod(f"{case.folder}/{how}", 0o777)
        drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
        done = subprocess.run([*drop, *command], env=env, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        assert (done.returncode, done.stderr) == (4, b""), done
        if how == "with":
            assert not Ran(f"{case.folder}/{how}").samples()


def of_thread(pid, name):
    """Folder in /proc of the thread with that name."""
    for task in glob.glob(f"/proc/{pid}/task/*"):
        try:
            with open(f"{task}/comm", encoding="ascii") as comm:
                if comm.read().strip() == name:
                    return task
        except OSError:
            pass
    return None


def case_seen_from_outside(case):
    """Its signals, its stack, its descriptors."""
    job, pid = case.begin([*USED, "wait:1500", "meminfo", "exit:6"])
    task = None
    for _ in range(100):
        task = task or of_thread(pid, "sparkshim")
        time.sleep(0.005)
    assert task, "no thread"
    with open(f"{task}/status", encoding="ascii") as status:
        blocked = int(re.search(r"SigBlk:\s*(\S+)", status.read())[1], 16)
    allowed = {s for s in range(1, 65) if not blocked >> (s - 1) & 1}
    assert allowed == {signal.SIGKILL, signal.SIGSTOP, signal.SIGBUS, 32, 33}, allowed
    for _ in range(50):
        open_files = os.listdir(f"{task}/fd")
        assert len(open_files) <= 2, open_files  # none but what it reads just now: no pipe of the job stays open in it
        time.sleep(0.01)
    job.communicate(timeout=20)
    assert job.returncode == 6


def case_pipe_closes(case):
    """Who reads the job's output sees its end when the job closes it, though the job goes on."""
    fifo = f"{case.folder}/fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    job, pid = case.begin([*USED, "wait:500", "close", "wait:20000", "exit:0"], output=fifo)
    os.set_blocking(reader, True)
    with open(reader, "rb") as output:
        assert b"cudaMalloc -> 0" in output.read()
    assert of_thread(pid, "sparkshim")
    os.kill(pid, signal.SIGKILL)
    job.communicate(timeout=20)


def case_line(case):
    """What the samples show is said on the job's standard error, and only while that is the file that it was."""
    falls = IDLE + "over 11s mark load MemAvailable 28.97GiB -> 2GiB\nover 11s mark load MemFree 20GiB -> 1GiB\n"
    words = ["thread", "cuda", "meminfo", "pass:2", "mark:load", "pass:12", "meminfo"]
    done = case.run([*words, "exit:0"], world=falls)
    assert re.search(rb"^G3 WARN: .*\(simulated\)$", done.stderr, re.M), (done.stderr, done.ran.samples()[-1])
    done = case.run(["closeerr", *words, "exit:0"], "closed", world=falls)
    assert done.stderr == b"" and done.returncode == 0, done


def main():
    with tempfile.TemporaryDirectory(prefix="sparkshim-thread-") as folder:
        globals()["case_" + sys.argv[2]](Case(folder))


if __name__ == "__main__":
    main()
