#!/usr/bin/env python3
"""Jobs that are killed for real: by the kernel at a memory cgroup's limit, by earlyoom, by hand. What does the report say?

  killers.py BUILD CASE

The driver is the simulated Spark's; memory, counters, cgroups and killers are the machine's own: the job runs without
SPARKSHIM_ROOT. Nothing but the job is ever in reach of a killer: all runs in a PID namespace with its own /proc, which ends
with this program, and what eats memory lies in a cgroup of LIMIT. The job says of itself that it is to be taken first.
Exit 77: left out, because this machine does not allow it."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
JOB = HERE.parent / "log/gpu_job.py"
LIMIT = 96 << 20
SKIP = 77
PATIENCE = 60  # seconds for anything; the machine may be loaded


def skip(why):
    print(f"left out: {why}")
    sys.exit(SKIP)


def in_namespace():
    """Runs this program anew as the first process of a PID namespace of its own."""
    flags = ["--pid", "--fork", "--mount-proc", "--kill-child"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    if subprocess.run(["unshare", *flags, "true"], stderr=subprocess.DEVNULL).returncode:
        skip("no PID namespace can be had here")
    done = subprocess.run(["unshare", *flags, sys.executable, *sys.argv, "inside"])
    sys.exit(done.returncode)


def until(true, what):
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.02)


def memory():
    """MemAvailable of MemTotal"""
    lines = dict(line.split(":") for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) / int(lines["MemTotal"].split()[0])


# ---- the job -----------------------------------------------------------------------------------------------------------


class Spark:
    """A job under `sparkshim run`, and what is known about it afterwards."""

    def __init__(self, build, path, group=None):
        self.build, self.path, self.group = build, path, group
        self.go = path / "go"
        self.env = {"PATH": os.environ["PATH"], "SPARKSHIM_DIR": str(path / "base"), "TMPDIR": str(path)}

    def start(self, *steps):
        """Returns when the job, which has looked at its GPU, waits for somebody to make the file `go`; steps come after that."""
        command = [str(self.build / "bin/gb10sim"), "idle", "--", "env", "-u", "SPARKSHIM_ROOT",
                   str(self.build / "bin/sparkshim"), "run", "--",
                   sys.executable, str(JOB), "victim", "alloc=10", f"wait={self.go}", *steps]
        if self.group:
            command = ["sh", "-c", 'echo $$ >"$0"/cgroup.procs && exec "$@"', str(self.group), *command]
        self.job = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                    stderr=(self.path / "stderr").open("w"))
        assert self.job.stdout.readline() == "10 allocations\n", self.said()
        assert self.job.stdout.readline() == "waiting\n", self.said()
        until(lambda: "sample" in self.kinds("tick"), "a look of the sampler beside the job")
        return self

    def records(self):
        for path in (self.path / "base").glob("runs/*/*.ndjson"):
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    yield json.loads(line)

    def kinds(self, why):
        return {r["k"] for r in self.records() if r.get("why") == why}

    def pid(self):
        """of the process that uses the GPU"""
        pids = {int(p.parent.name) for p in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                if p.read_bytes().split(b"\0")[1:2] == [str(JOB).encode()]}
        assert len(pids) == 1, pids
        return pids.pop()

    def said(self):
        return (self.path / "stderr").read_text()

    def end(self):
        """Waits for the end; returns its signal (or status) and the report."""
        self.rest = self.job.communicate(timeout=PATIENCE)[0]
        done = subprocess.run([self.build / "bin/sparkshim", "report", "--format", "json"], env=self.env,
                              capture_output=True, timeout=PATIENCE)
        assert done.stdout, done
        report = json.loads(done.stdout)
        assert not [r for r in self.records() if r.get("simulated")], "the figures were to be the machine's own"
        return self.job.returncode, report


def worst(report, why):
    """The findings about the end, from any detector: verdict, cause."""
    print(why, [(f["verdict"], f["confidence"], f["cause"], f["text"]) for f in report["findings"]], flush=True)
    return {(f["verdict"], f["cause"]) for f in report["findings"]}


def killed_by(status, number):
    return status in (-number, 128 + number)


def only(report, cause):
    (found,) = [f for f in report["findings"] if f["cause"] == cause]
    return found


def unknown(report, number, why):
    """Nobody knows who sent it: that is said, and nothing fails."""
    found = worst(report, why)
    assert found == ({("INFO", "killed_unknown")} if number == signal.SIGKILL else set()), (found, report)
    assert report["verdict"] in ("INFO", "SKIP") and report["processes"][0]["signal"] == number, report
    if number == signal.SIGKILL:
        assert "sender unknown" in only(report, "killed_unknown")["text"], report
    else:
        assert any("signal 15" in line for line in report["unexplained"]), report


# ---- cgroups -----------------------------------------------------------------------------------------------------------


def own_group(lines, mounts):
    """The folder below which a group with a limit can be made: of version 1 where memory is counted there."""
    for line in mounts:
        kind, _, options = line.partition(" - ")[2].split(" ", 2)
        base, mount = line.split()[3:5]
        if kind == "cgroup" and "memory" in options.split()[-1].split(","):
            at = next(line.split(":", 2)[2] for line in lines if "memory" in line.split(":", 2)[1].split(","))
            return 1, pathlib.Path(mount + at.removeprefix(base if base != "/" else ""))
    for line in mounts:
        if " - cgroup2 " in line:
            base, mount = line.split()[3:5]
            at = next(line[3:] for line in lines if line.startswith("0::"))
            return 2, pathlib.Path(mount + at.removeprefix(base if base != "/" else ""))
    skip("there are no memory cgroups here")


class Group:
    """A memory cgroup of LIMIT, without swap; gone at the end."""

    def __enter__(self):
        version, at = own_group(pathlib.Path("/proc/self/cgroup").read_text().splitlines(),
                                pathlib.Path("/proc/self/mountinfo").read_text().splitlines())
        # In version 2 a group can be limited where the one above has handed memory down, which only one without processes does.
        while version == 2 and not self.hands_down(at) and (at.parent / "cgroup.subtree_control").exists():
            at = at.parent
        self.path = at / f"sparkshim-killers-{os.getpid()}-{time.monotonic_ns()}"
        limit, swap = [("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), ("memory.max", "memory.swap.max")][version - 1]
        try:
            self.path.mkdir()
        except OSError as error:
            skip(f"no cgroup can be made here: {error}")
        try:
            (self.path / limit).write_text(str(LIMIT))
            if (self.path / swap).exists():
                (self.path / swap).write_text(str(LIMIT if version == 1 else 0))
        except OSError as error:
            self.path.rmdir()
            skip(f"no memory cgroup can be limited here: {error}")
        return self.path

    @staticmethod
    def hands_down(at):
        return "memory" in (at / "cgroup.subtree_control").read_text().split()

    def __exit__(self, *_):
        for _ in range(100):
            for pid in (self.path / "cgroup.procs").read_text().split():
                if int(pid) > 1:  # 0: not of our namespace; nobody is
                    os.kill(int(pid), signal.SIGKILL)
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.05)
        print(f"could not remove {self.path}")


def case_cgroup(spark):
    with Group() as group:
        job = spark("itself", group).start(f"eat={4 * LIMIT >> 20}")
        job.go.touch()
        status, report = job.end()
        found = worst(report, "the job itself")
        assert killed_by(status, signal.SIGKILL) and "ate" not in job.rest, (status, job.rest)
        assert ("FAIL", "cgroup_oom_kill") in found and len(found) == 1, (found, report)
        says = only(report, "cgroup_oom_kill")
        assert "96.0 MiB" in says["text"] and says["confidence"] in ("high", "medium"), says

        job = spark("loader", group).start(f"loader={4 * LIMIT >> 20}", "exit=0")
        job.go.touch()
        status, report = job.end()
        found = worst(report, "a child of the job")
        assert status == 1 and "loader is gone" in job.said(), (status, job.said())
        assert found & {("FAIL", "cgroup_oom_kill"), ("WARN", "cgroup_oom_kill")} and len(found) == 1, (found, report)

        # The look-alike: the same group, in which nobody has run into the limit.
        job = spark("less", group).start(f"eat={LIMIT >> 22}", f"wait={group.name}")
        job.go.touch()
        assert job.job.stdout.readline().startswith("ate"), job.said()
        os.kill(job.pid(), signal.SIGKILL)
        status, report = job.end()
        assert killed_by(status, signal.SIGKILL), status
        unknown(report, signal.SIGKILL, "by hand in the group")


# ---- earlyoom ----------------------------------------------------------------------------------------------------------


def earlyoom_program():
    """The system's, or the one that scripts/get-earlyoom has unpacked."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "sparkshim/earlyoom/usr/bin"
    program = shutil.which("earlyoom", path=f"{os.environ['PATH']}:/usr/bin:/usr/sbin:{cache}")
    if not program:
        skip("no earlyoom here: scripts/get-earlyoom")
    return program


class Earlyoom:
    """Acts below `term` per cent of memory by SIGTERM, below `kill` by SIGKILL; it takes 99 at most."""

    def __init__(self, term, kill):
        assert os.getpid() == 1, "earlyoom is to see nothing but the job"
        avoid = "^(gb10sim|sparkshim|sh|env|unshare)$"
        self.process = subprocess.Popen([earlyoom_program(), "-m", f"{term},{kill}", "-s", "100,100", "-r", "0", "--avoid", avoid],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        return self.process.communicate(timeout=PATIENCE)[0]


def killed_by_earlyoom(job, killer, number, why):
    status, report = job.end()
    log = killer.end()
    assert killed_by(status, number) and f"sending {signal.Signals(number).name} to process" in log, (status, log)
    found = worst(report, why)
    assert found == {("FAIL", "userspace_oom_kill")}, (found, report)
    says = only(report, "userspace_oom_kill")
    assert says["text"].startswith("earlyoom ended this process by " + signal.Signals(number).name), says
    # A person could have sent the same signal at the same moment: that one is named, and it is not said with certainty.
    assert says["confidence"] == "medium" and any("a person" in e for e in says["evidence"]), says
    assert "memory was not low" in says["text"] and not any("hold less" in fix for fix in says["fixes"]), says
    assert any("acts below 99.0 % of memory" in e for e in says["evidence"]), says


def case_earlyoom(spark):
    """It was there before the job, asleep until the job waits; it came when the job was running; it was there, and did nothing."""
    if memory() > 0.985:
        skip("nothing runs here: earlyoom cannot be told to act at so much free memory")
    killer = Earlyoom(99, 0)
    killer.signal(signal.SIGSTOP)
    job = spark("before").start()
    killer.signal(signal.SIGCONT)
    killed_by_earlyoom(job, killer, signal.SIGTERM, "earlyoom from before")

    idle = Earlyoom(1, 0)
    job = spark("later").start()
    killed_by_earlyoom(job, Earlyoom(99, 99), signal.SIGKILL, "earlyoom from later")

    for number in (signal.SIGTERM, signal.SIGKILL):
        by_hand(spark(f"idle-{number}"), number, "by hand beside an earlyoom")
    assert "to process" not in idle.end()


# ---- by hand -----------------------------------------------------------------------------------------------------------


def by_hand(job, number, why):
    job.start()
    os.kill(job.pid(), number)
    status, report = job.end()
    assert killed_by(status, number), status
    unknown(report, number, why)


def case_by_hand(spark):
    for number in (signal.SIGTERM, signal.SIGKILL):
        by_hand(spark(f"hand-{number}"), number, "by hand")


def main():
    build, case = pathlib.Path(sys.argv[1]), sys.argv[2]
    if sys.argv[3:] != ["inside"]:
        in_namespace()
    if memory() < 0.25:
        skip("this machine's own memory is short")
    with tempfile.TemporaryDirectory(prefix="sparkshim-killers-") as folder:

        def spark(name, group=None):
            path = pathlib.Path(folder) / name
            path.mkdir()
            return Spark(build, path, group)

        globals()["case_" + case](spark)


main()
