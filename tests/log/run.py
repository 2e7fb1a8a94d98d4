#!/usr/bin/env python3
"""Log, ring and stderr line under what jobs, disks and people do to them.

  run.py LOG_JOB RING_DUMP CASE

Every case runs log_job (see its head) twice: bare, as the control, and with log and ring. What the job prints and how it
ends must be the same; then the files are looked at. Exit 77: the case needs what this machine does not allow."""
import ctypes
import ctypes.util
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import check_log  # noqa: E402

JOB = DUMP = None
SKIP = 77
UNTOUCHED = {"PATH": os.environ["PATH"]}
EMULATOR = os.environ.get("LOG_TEST_EMULATOR", "").split()  # of the other CPU
PATIENCE = 400 if EMULATOR else 100  # s: a log of 16 MiB takes 2 s, and 50 s under an emulator


class Place:
    """A fresh folder with a base for logs in it, and what to find there afterwards."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.base = self.path / "base"
        self.tmp = self.path / "tmp"
        self.tmp.mkdir(exist_ok=True)
        self.env = {**UNTOUCHED, "SPARKSHIM_DIR": str(self.base), "TMPDIR": str(self.tmp)}

    def fallback(self):
        return self.tmp / f"sparkshim-{os.geteuid()}"

    def logs(self, base=None):
        base = base or self.base
        return sorted(base.glob("runs/*/*.ndjson")) if base.exists() else []

    def log(self, base=None, torn=0):
        """The records of the only log."""
        (path,) = self.logs(base)
        return check_log.records(path, torn)

    def rings(self):
        return sorted(self.base.glob("runs/*/*.ring"))


def run(steps, env, **more):
    more.setdefault("stdin", subprocess.DEVNULL)
    more.setdefault("stdout", subprocess.PIPE)
    more.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([*EMULATOR, JOB, *steps], env=env, timeout=PATIENCE, **more)


def same(steps, place, **more):
    """Runs the control, then the job; both must print the same and end the same. Returns the latter."""
    bare = run(["bare", *steps], place.env, **more)
    done = run(steps, place.env, **more)
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout), (bare, done)
    return done


def dump(ring):
    text = subprocess.run([*EMULATOR, DUMP, ring], check=True, stdout=subprocess.PIPE, timeout=60).stdout.decode()
    words = text.split()
    first = lambda name: int(words[words.index(name) + 1])
    return {name: first(name) for name in ("pid", "entries", "threads", "allocs", "valid", "in_order", "count", "bytes", "live")}


def of_kind(records, kind):
    return [r for r in records if r["k"] == kind]


def lookups(records):
    return len(of_kind(records, "lookup"))


# ---- killed, many threads --------------------------------------------------------------------------------------


def case_killed(place):
    place.env["SPARKSHIM_RING"] = "131072"
    done = same(["wake", "alloc=100000", "records=5000", "kill=9"], place)
    assert done.returncode == -signal.SIGKILL
    (ring,) = place.rings()
    found = dump(ring)
    assert (found["allocs"], found["valid"], found["in_order"], found["count"]) == (100000,) * 4, found
    assert lookups(place.log()) == 5000


def case_killed_default_ring(place):
    same(["wake", "alloc=100000", "kill=9"], place)
    (ring,) = place.rings()
    found = dump(ring)
    assert (found["entries"], found["valid"], found["in_order"]) == (4096,) * 3, found
    assert (found["allocs"], found["count"], found["bytes"]) == (100000, 100000, 100000 * 1024 + sum(range(100000))), found


def case_threads(place):
    """More threads than slots and counters, one batch after the other."""
    same(["wake", "threads=1500,200", "exit=0"], place)
    (ring,) = place.rings()
    found = dump(ring)
    assert (found["count"], found["live"]) == (300000, 0), found
    # Threads take numbers in chunks, and give up what lies half a ring behind.
    assert found["allocs"] >= 600000 and 2048 <= found["valid"] <= 4096, found
    assert found["threads"] <= 512
    assert len(of_kind(place.log(), "note")) == 1500


# ---- the ring's file is cut ----------------------------------------------------------------------------------------


def cut_ring(place, *more):
    pattern = f"{place.base}/runs/*/*.ring"
    done = same(["wake", "alloc=5000", *more, f"cutring={pattern}", "alloc=5000", "threads=8,1000", "exit=5"], place)
    assert done.returncode == 5 and not done.stderr, done
    assert place.rings()[0].stat().st_size == 0
    notes = [n["text"] for n in of_kind(place.log(), "note") if "ring" in n["text"]]
    assert len(notes) == 1, notes


def case_ring_cut(place):
    cut_ring(place)


def case_ring_cut_under_a_handler_that_chains(place):
    not_emulated("itself dies of a path that lies in a cut mapping, instead of answering EFAULT")
    cut_ring(place, "chainbus")


def case_sigbus_of_the_job(place):
    assert same(["wake", "sigbus", "say=never"], place).returncode == -signal.SIGBUS
    assert same(["wake", "kill=7", "say=never"], place).returncode == -signal.SIGBUS
    for steps in (["catchbus", "wake"], ["wake", "catchbus"], ["catchbus", "wake", "alloc=10"]):
        for fault in ("sigbus", "kill=7"):
            done = same([*steps, fault], place)
            assert (done.returncode, done.stdout.splitlines()[-1]) == (7, b"SIGBUS caught"), done
    for path in place.logs():
        path.unlink()
    done = same(["ignorebus", "wake", "alloc=10", "kill=7", "say=lived"], place)
    assert done.stdout.endswith(b"lived\n")
    assert "ring" not in place.log()[0]  # no file is mapped where it could not be guarded


# ---- descriptors -----------------------------------------------------------------------------------------------------


def case_descriptors_closed(place):
    same(["wake", "records=10", "closeall", "records=10", "closeall", "records=10", "alloc=10", "exit=4"], place)
    assert lookups(place.log()) == 30


def case_descriptors_taken(place):
    work = place.path / "work"
    work.mkdir()
    done = same(["wake", "records=10", f"chdir={work}", "steal", "records=10", f"failed={1 << 60}", "reader", "exit=0"], place)
    assert b"\n0 bytes in files of the job\n" in done.stdout, done
    assert lookups(place.log()) == 20


def case_stderr_taken(place):
    own = place.path / "own"
    done = same(["wake", f"failed={1 << 60}", f"stealerr={own}", f"failed={1 << 61}", "exit=0"], place)
    assert own.stat().st_size == 0
    assert done.stderr.count(b"\n") == 1
    same(["closeerr", "wake", f"failed={1 << 60}", "exit=0"], place)
    findings = [r for path in place.logs() for r in of_kind(check_log.records(path), "finding")]
    assert findings and sum("shown" in r for r in findings) == 1, findings


def case_stderr_is_named(place):
    """The launcher compares the file of a line with its own standard error."""
    own = place.path / "own"
    with open(own, "wb") as f:
        same(["wake", f"failed={1 << 60}", "exit=1"], place, stderr=f)
    st = own.stat()
    assert own.read_text().startswith("G3 WARN"), own.read_text()
    assert of_kind(place.log(), "finding")[0]["shown"] == f"{st.st_dev}:{st.st_ino}", place.log()


def case_descriptors_few(place):
    same(["nofile=10", "wake", "records=10", "exit=0"], place)
    assert lookups(place.log()) == 10
    same(["nofile=3", "wake", "records=10", "exit=0"], place)  # none at all


def case_descriptors_exhausted(place):
    """The job has every descriptor: the records are counted, and the count is written once there is room again."""
    done = same(["nofile=40", "wake", "records=10", "takeall", "records=5", f"failed={1 << 60}", "giveone", "records=7", "exit=0"], place)
    assert b"G3 WARN" in done.stderr
    records = place.log()
    assert lookups(records) == 17, records
    assert any(n["text"].startswith(("6 records", "7 records")) for n in of_kind(records, "note")), of_kind(records, "note")


def case_no_descriptor_is_kept(place):
    """What the job finds open is its own, also with closed standard files and behind fork."""
    same(["wake", "records=10", "list", "alloc=10", "threads=4,10", "list", "fork", "list", "records=3", "list", "exit=0"], place)
    assert sorted(lookups(check_log.records(path)) for path in place.logs()) == [3, 10]


def case_closed_standard_files(place):
    """Nothing that the job prints gets into the log, which would have their numbers."""
    for steps in (["closeerr", "wake", "records=300", "exit=0"], ["wake", "closeerr", "records=300", "exit=0"]):
        same([*steps[:-1], "list", *steps[-1:]], place)
        assert place.logs()
    for path in place.logs():
        assert lookups(check_log.records(path)) == 300


def case_fifo_in_place_of_the_log(place):
    """A FIFO, a link, a folder at the log's path: no waiting, nothing followed."""
    for number, put in enumerate(("mkfifo {0}", "ln -s /dev/null {0}", "mkdir {0}", "cp /dev/null {0}", "true")):
        place.env["SPARKSHIM_RUN"] = f"r{number}"
        go = f"for f in {place.base}/runs/r{number}/*.ndjson; do rm -f $f; {put.format('$f')}; done 2>/dev/null; true"
        same(["wake", "records=3", f"sh={go}", "records=300", "exit=2"], place)
        for path in place.logs():
            assert not path.is_file() or path.is_symlink() or path.stat().st_size == 0, path


def case_nothing_inherited(place):
    """A program that the job executes finds no descriptor of ours."""
    same(["wake", "records=1", "exec=/bin/ls", "/proc/self/fd"], place)


# ---- limits, signals ---------------------------------------------------------------------------------------------------


def case_file_size_limit(place):
    """SIGXFSZ would end the job."""
    done = same(["fsize=6000", "wake", "alloc=1000", "records=1000", "exit=3"], place)
    assert done.returncode == 3
    (path,) = place.logs()
    assert path.stat().st_size <= 6000
    assert 0 < lookups(check_log.records(path, torn=1)) < 1000


def case_log_has_its_size(place):
    same(["wake", "records=200000", f"failed={1 << 60}", "exit=0"], place)
    (path,) = place.logs()
    assert 15 << 20 < path.stat().st_size <= 16 << 20
    lines = path.read_bytes().splitlines(keepends=True)
    sample = place.path / "sample.ndjson"  # checking every line would take a minute
    sample.write_bytes(b"".join([*lines[:100], *lines[-100:]]))
    tail = check_log.records(sample)[-5:]
    assert of_kind(tail, "exit") and of_kind(tail, "alloc_failed"), tail
    (note,) = of_kind(tail, "note")
    written = sum(b'"k":"lookup"' in line for line in lines)
    assert note["text"].startswith(f"{200000 - written} records are missing"), note


def case_stderr_pipe(place):
    """Nobody reads: no SIGPIPE. The pipe is full: no waiting."""
    reader, writer = os.pipe()
    os.close(reader)
    same(["wake", f"failed={1 << 60}", "exit=0"], place, stderr=writer)
    os.close(writer)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while os.write(writer, b"x" * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(writer, True)
    same(["wake", f"failed={1 << 60}", "exit=0"], place, stderr=writer)
    for path in place.logs():
        assert of_kind(check_log.records(path), "finding")[0]["verdict"] == "WARN"


# ---- the line on stderr ------------------------------------------------------------------------------------------------


def case_line(place):
    steps = ["wake", *[f"failed={1 << 60}"] * 10, "exit=0"]
    done = same(steps, place)
    lines = done.stderr.decode().splitlines()
    assert [line[:9] for line in lines] == ["G3 WARN: ", "G3 INFO: "] and all(len(line) < 512 for line in lines), lines
    assert "handled" in lines[1], lines
    counts = [(r["verdict"], r["count"]) for r in of_kind(place.log(), "finding")]
    assert ["shown" in r for r in of_kind(place.log(), "finding")] == [True, False]
    assert counts == [("WARN", 1), ("INFO", 2)], counts
    done = same([*steps[:-1], "exit=1"], place)
    assert [line[:9] for line in done.stderr.decode().splitlines()] == ["G3 WARN: ", "G3 FAIL: "], done
    place.env["SPARKSHIM_STDERR"] = "0"
    assert same(steps, place).stderr == b""
    del place.env["SPARKSHIM_STDERR"]
    place.env["SPARKSHIM_ROOT"] = str(place.path / "root")
    assert same(steps, place).stderr.endswith(b" (simulated)\n")
    place.env["SPARKSHIM_DETECTORS"] = "-G3"
    assert same(steps, place).stderr == b""


def case_healthy_run_is_silent(place):
    done = same(["wake", "alloc=1000", "threads=4,100", "records=100", "exit=0"], place)
    assert done.stderr == b""
    assert not of_kind(place.log(), "finding")


def case_line_on_a_terminal(place):
    main, other = pty.openpty()
    run(["wake", f"failed={1 << 60}", "exit=0"], place.env, stderr=other)
    os.close(other)
    text = os.read(main, 4096)
    assert text.startswith(b"\r\x1b[KG3 WARN: ") and b"\n\r\x1b[KG3 INFO: " in text.replace(b"\r\n", b"\n"), text


# ---- places ------------------------------------------------------------------------------------------------------------


def case_no_home(place):
    del place.env["SPARKSHIM_DIR"]
    same(["wake", "records=3", "exit=0"], place)
    assert lookups(place.log(place.fallback())) == 3


def case_home(place):
    del place.env["SPARKSHIM_DIR"]
    place.env["HOME"] = str(place.path)
    same(["wake", "records=3", "exit=0"], place)
    assert lookups(place.log(place.path / ".local/state/sparkshim")) == 3
    path = place.logs(place.path / ".local/state/sparkshim")[0]
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700


def case_folder_is_a_file(place):
    place.base.write_text("in the way")
    same(["wake", "records=3", "exit=0"], place)
    assert lookups(place.log(place.fallback())) == 3


def case_nowhere(place):
    place.base.write_text("in the way")
    place.fallback().symlink_to("/tmp")
    done = same(["wake", "records=3", "alloc=100", "threads=3,100", f"failed={1 << 60}", "exit=0"], place)
    assert b"G3 WARN" in done.stderr  # no log, but the line


def case_run_folder_is_a_link(place):
    place.env["SPARKSHIM_RUN"] = "mine"
    target = place.path / "target"
    target.mkdir()
    (place.base / "runs").mkdir(parents=True)
    (place.base / "runs/mine").symlink_to(target)
    same(["wake", "records=3", "exit=0"], place)
    assert not list(target.iterdir())
    assert lookups(place.log(place.fallback())) == 3


def case_odd_bytes(place):
    """A working directory, an argument and a run id that are not UTF-8, with a secret."""
    odd = os.path.join(os.fsencode(place.path), b"od\xe4d")
    os.mkdir(odd)
    place.env["SPARKSHIM_RUN"] = os.fsdecode(b"../r\xffn")
    done = run(["wake", "say=--token=hunter2", os.fsdecode(b"say=\xfc"), "exit=0"], place.env, cwd=odd)
    assert done.returncode == 0
    header = place.log()[0]
    assert header["cwd"].endswith("od\uf7e4d"), header
    assert "\uf7fc" in header["argv"], header
    assert header["run"].startswith("_._r_n-") or "/" not in header["run"], header


# ---- fork, exec, runs ---------------------------------------------------------------------------------------------------


def case_fork(place):
    done = same(["wake", "records=5", "alloc=10", "fork", "records=7", "alloc=20", "exit=6"], place)
    assert done.returncode == 6
    found = {r[0]["pid"]: (lookups(r), r[0]) for r in map(check_log.records, place.logs())}
    assert sorted(n for n, _ in found.values()) == [5, 7], found
    (child,) = [h for n, h in found.values() if n == 7]
    (parent,) = [h for n, h in found.values() if n == 5]
    assert child["ppid"] == parent["pid"] and child["run"] == parent["run"] and child["ring"] != parent["ring"]
    counts = {dump(ring)["pid"]: dump(ring)["count"] for ring in place.rings()}
    assert counts == {parent["pid"]: 10, child["pid"]: 20}, counts


def case_fork_that_has_no_event(place):
    """A child that uses no GPU leaves nothing."""
    same(["wake", "records=5", "fork", "bare", "exit=0"], place)
    assert any(lookups(check_log.records(path)) == 5 for path in place.logs())


def not_emulated(why):
    if EMULATOR:
        skip(f"the emulator {why}")


def case_exec(place):
    not_emulated("does not take a program of its CPU in exec")
    same(["wake", "records=5", f"exec={JOB}", "wake", "records=6", "exit=0"], place)
    first, second = (check_log.records(path) for path in place.logs())
    assert first[0]["pid"] == second[0]["pid"]
    assert sorted((lookups(first), lookups(second))) == [5, 6]


def case_run_of_the_parent(place):
    """A child in a session of its own, as torchrun starts its workers, belongs to its parent's run."""
    not_emulated("does not take a program of its CPU in exec")
    same(["setsid", "wake", "records=1", "fork", "setsid", f"exec={JOB}", "wake", "records=2", "exit=0"], place)
    logs = [check_log.records(path) for path in place.logs()]
    by_count = {lookups(r): r[0] for r in logs}
    assert by_count[2]["run"] == by_count[1]["run"] and by_count[2]["run_from"] == "parent", by_count


def case_ranks(place):
    place.env.update(RANK="3", LOCAL_RANK="1", WORLD_SIZE="4", TORCHELASTIC_RUN_ID="none", MASTER_ADDR="spark-1", MASTER_PORT="29500")
    same(["wake", "exit=0"], place)
    header = place.log()[0]
    assert (header["rank"], header["local_rank"], header["world_size"]) == (3, 1, 4)
    assert "local_world_size" not in header
    assert (header["run"], header["run_from"]) == ("torchelastic-none-spark-1-29500", "torchelastic")


# ---- disks: in a mount namespace of our own -----------------------------------------------------------------------------


def in_namespace(case, *program):
    """Runs the case of `program` (this one, with its arguments) anew in a private mount namespace; skips where that is not allowed."""
    if os.environ.get("LOG_TEST_MOUNTS"):
        return False
    flags = ["-m"] if os.geteuid() == 0 else ["-rm"]
    if subprocess.run(["unshare", *flags, "true"], stderr=subprocess.DEVNULL).returncode:
        skip("no mount namespace can be had here")
    env = {**os.environ, "LOG_TEST_MOUNTS": "1"}
    done = subprocess.run(["unshare", *flags, sys.executable, *(program or (__file__, JOB, DUMP)), case], env=env)
    sys.exit(done.returncode)


def skip(why):
    print(f"left out: {why}")
    sys.exit(SKIP)


MOUNTED = []


def mount(*args):
    MOUNTED.append(args[-1])
    if subprocess.run(["mount", *map(str, args)], stderr=subprocess.PIPE).returncode:
        skip(f"mount {' '.join(map(str, args))} is not allowed here")


FULL = ["wake", "alloc=1000", "records=3000", "alloc=1000", f"failed={1 << 60}", "exit=4"]


def ring_outside(place, header):
    """On a disk that cannot take it the ring lies in memory, and is gone when the process ended in good order."""
    assert header["ring"].startswith("/") and not os.path.exists(header["ring"]), header


def case_no_proc(place):
    """What cannot be read is not known, and nothing else."""
    not_emulated("makes up files of /proc itself")
    in_namespace("no_proc")
    mount("-t", "tmpfs", "none", "/proc")
    same(["wake", "alloc=10", "records=5", "exit=3"], place)
    header = place.log()[0]
    for field in ("start", "ppid", "exe", "argv", "cwd", "boot_id"):
        assert field not in header, header
    assert header["pid"] and header["host"] and lookups(place.log()) == 5


def case_full_tmpfs(place):
    in_namespace("full_tmpfs")
    place.base.mkdir()
    mount("-t", "tmpfs", "-o", "size=128k", "none", place.base)
    done = same(FULL, place)
    assert b"G3 WARN" in done.stderr
    records = place.log(torn=1)
    assert 0 < lookups(records) < 3000
    ring_outside(place, records[0])


def image(place, size, *options):
    path = place.path / "disk.img"
    with open(path, "wb") as f:
        f.truncate(size)
    if not shutil.which("mkfs.ext4"):
        skip("no mkfs.ext4")
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", *options, path], check=True)
    place.base.mkdir()
    mount("-o", "loop", path, place.base)


def case_full_ext4(place):
    """The disk fills while the job runs: by the log itself, and by the job."""
    in_namespace("full_ext4")
    image(place, 4 << 20)
    fill = place.base / "filler"
    steps = ["wake", "alloc=1000", "records=100", f"fill={fill}", *FULL[1:]]
    done = same(steps, place)
    assert b"G3 WARN" in done.stderr
    for path in place.logs():
        assert lookups(check_log.records(path, torn=1)) >= 0


def case_full_ext4_from_the_start(place):
    in_namespace("full_ext4_from_the_start")
    image(place, 4 << 20)
    subprocess.run([*EMULATOR, JOB, f"fill={place.base}/filler"], check=True)
    done = same(FULL, place)
    assert b"G3 WARN" in done.stderr


def set_quota(device, uid, kib):
    """quotactl(2): a hard limit on blocks, as setquota(8) would set it."""

    class Dqblk(ctypes.Structure):
        _fields_ = [(n, ctypes.c_uint64) for n in ("bhard", "bsoft", "space", "ihard", "isoft", "inodes", "btime", "itime")]
        _fields_ += [("valid", ctypes.c_uint32)]

    libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
    q_setquota, usrquota, qif_blimits = 0x800008, 0, 1
    limit = Dqblk(bhard=kib, bsoft=kib, valid=qif_blimits)
    if libc.quotactl((q_setquota << 8) | usrquota, os.fsencode(device), uid, ctypes.byref(limit)):
        skip(f"quotactl: {os.strerror(ctypes.get_errno())}")


def case_quota(place):
    in_namespace("quota")
    if os.geteuid():
        skip("only root can set a quota")
    image(place, 16 << 20, "-O", "quota", "-E", "quotatype=usrquota")
    device = subprocess.run(["findmnt", "-no", "SOURCE", place.base], check=True, stdout=subprocess.PIPE).stdout.decode().strip()
    uid = 65534
    set_quota(device, uid, 256)
    for path in (place.base, place.tmp, place.path):
        os.chmod(path, 0o777)
    user = dict(user=uid, group=uid, extra_groups=[])
    done = same(FULL, place, **user)
    assert b"G3 WARN" in done.stderr
    records = place.log(torn=1)
    assert 0 < lookups(records) < 3000
    ring_outside(place, records[0])


def case_quota_refuses(place):
    """The answers of a used-up quota, where the kernel has none: at the start, and in mid-run."""
    done = same(["edquot", *FULL], place)
    if done.returncode == SKIP:
        skip("no seccomp filter can be set here")
    assert b"G3 WARN" in done.stderr and done.returncode == 4
    (path,) = place.logs()
    assert path.stat().st_size == 0 and not place.rings()
    path.unlink()
    done = same(["wake", "records=10", "edquot", *FULL[1:]], place)
    assert b"G3 WARN" in done.stderr
    assert lookups(place.log()) == 10


def case_read_only_home(place):
    in_namespace("read_only_home")
    home = place.path / "home"
    home.mkdir()
    mount("-t", "tmpfs", "-o", "ro", "none", home)
    del place.env["SPARKSHIM_DIR"]
    place.env["HOME"] = str(home)
    same(FULL, place)
    assert lookups(place.log(place.fallback())) == 3000


def main():
    global JOB, DUMP
    JOB, DUMP, name = sys.argv[1:]
    JOB, DUMP = os.path.realpath(JOB), os.path.realpath(DUMP)
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="log.") as folder:
        os.chmod(folder, 0o755)
        try:
            globals()[f"case_{name}"](Place(folder))
        finally:
            for path in MOUNTED:
                subprocess.run(["umount", "-l", path], stderr=subprocess.DEVNULL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
