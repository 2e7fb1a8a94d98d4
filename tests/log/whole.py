#!/usr/bin/env python3
"""The preloaded library's log and ring in a real job (gpu_job.py) on the simulated Spark, without the launcher.

  whole.py BUILD CASE

The job runs bare and under the library; what it prints and how it ends must be the same. Exit 77: left out."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run as tools  # noqa: E402
from run import Place, check_log, dump, in_namespace, mount, of_kind  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
WORLD = HERE.parent / "scenarios/mem-17/world.scn"
BUILD = None


def command(steps, shim):
    job = [sys.executable, str(HERE / "gpu_job.py"), *steps]
    if shim:
        job = ["sh", "-c", 'LD_PRELOAD="$0:$LD_PRELOAD" exec "$@"', str(BUILD / "lib/libsparkshim.so"), *job]
    return [str(BUILD / "bin/gb10sim"), str(WORLD), "--", *job]


def run(steps, place, shim, **more):
    return subprocess.run(command(steps, shim), env=place.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=100, **more)


def same(steps, place, quiet=True, **more):
    bare = run(steps, place, False, **more)
    done = run(steps, place, True, **more)
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout), (bare, done)
    if quiet:
        assert done.stderr == bare.stderr, (bare, done)
    return done


def report(place):
    """Of a job that failed from a cause that nothing tells: no more is said than is known, and it does not read as healthy."""
    done = subprocess.run([BUILD / "bin/sparkshim", "report", "--format", "json"], env=place.env, capture_output=True, timeout=60)
    known = json.loads(done.stdout)
    found = [(f["verdict"], f["cause"]) for f in known["findings"]]
    assert (done.returncode, known["verdict"]) == (0, "INFO" if found else "SKIP"), done
    assert found in ([], [("INFO", "killed_unknown")]), done
    return known


def case_killed(place):
    place.env["SPARKSHIM_RING"] = "65536"
    done = same(["alloc=20000", "kill"], place)
    assert done.returncode == 128 + signal.SIGKILL or done.returncode == -signal.SIGKILL, done
    (ring,) = place.rings()
    found = dump(ring)
    assert (found["allocs"], found["valid"], found["count"]) == (40000, 40000, 20000), found
    check_log.main([str(place.base)]) and sys.exit("a bad record")
    known = report(place)
    assert "wrote no record of its end" in known["unexplained"][0], known
    assert known["processes"][0]["last_call"].startswith("cuMem"), known


def case_killed_under_the_launcher(place):
    """What is left names what is known, and no more."""
    sparkrun = str(BUILD / "bin/sparkrun")
    done = subprocess.run([*command(["alloc=10", "kill"], False)[:3], sparkrun, *command(["alloc=10", "kill"], False)[3:]],
                          env=place.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=100)
    assert done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL) and not done.stderr, done
    known = report(place)
    assert known["processes"][0]["signal"] == signal.SIGKILL, known
    assert "was killed by signal 9 (Killed); nothing that sparkshim knows explains it" in known["unexplained"][0], known


def case_descriptors(place):
    same(["alloc=10", "closeall", "alloc=10", "exit=3"], place)
    done = same(["alloc=10", f"steal={place.path}/own", "refused", "alloc=10", "exit=3"], place, quiet=False)
    assert done.stdout.endswith(b"0 " * 80), done
    for log in place.logs():
        assert of_kind(check_log.records(log), "exit"), log


def case_ring_cut_by_somebody(place):
    """Another process cuts the ring while the job runs."""
    go = place.path / "go"
    job = subprocess.Popen(command(["alloc=1000", f"wait={go}", "alloc=20000", "exit=0"], True), env=place.env, stdout=subprocess.PIPE)
    assert job.stdout.readline() == b"1000 allocations\n" and job.stdout.readline() == b"waiting\n"
    (ring,) = place.rings()
    os.truncate(ring, 0)
    go.touch()
    rest = job.communicate(timeout=60)[0]
    assert (job.returncode, rest) == (0, b"20000 allocations\n"), (job.returncode, rest)
    assert of_kind(check_log.records(place.logs()[0]), "exit")


def case_no_home(place):
    del place.env["SPARKSHIM_DIR"]
    same(["alloc=10", "exit=0"], place)
    assert place.logs(place.fallback())
    place.env["TMPDIR"] = "/nonexistent"
    same(["alloc=10", "exit=0"], place)


def case_fork(place):
    same(["alloc=10", "fork", "alloc=20", "exit=4"], place)
    found = sorted(dump(ring)["valid"] for ring in place.rings())
    assert found == [1, 20], found  # the child's call is refused: CUDA does not survive fork


def case_injected(place):
    """The driver's way in: one line says that calls are not seen, and the report does not read as healthy."""
    place.env["CUDA_INJECTION64_PATH"] = str(BUILD / "lib/libsparkshim.so")
    done = run(["alloc=10", "refused", "exit=3"], place, False)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 3 and len(lines) == 1 and lines[0].startswith("G1 INFO: the driver loaded sparkshim"), done
    (records,) = [check_log.records(path) for path in place.logs()]
    assert records[0]["writer"] == "inject" and of_kind(records, "load") and of_kind(records, "exit"), records
    assert not of_kind(records, "alloc_failed"), records
    known = report(place)
    assert any("calls were not seen" in r for r in known["remarks"]) and "ended with status 3" in known["unexplained"][0], known
    place.env["SPARKSHIM_STDERR"] = "0"
    assert run(["alloc=10", "exit=0"], place, False).stderr == b""


def case_full_disk(place):
    in_namespace("full_disk", __file__, str(BUILD))
    place.base.mkdir()
    mount("-t", "tmpfs", "-o", "size=2m", "none", place.base)
    done = same(["alloc=10", f"fill={place.base}/filler", "alloc=1000", "refused", "exit=0"], place, quiet=False)
    assert b"G3 WARN" in done.stderr, done
    (place.base / "filler").write_bytes(b"")
    subprocess.run(["sh", "-c", f"dd if=/dev/zero of={place.base}/filler bs=4k 2>/dev/null"])
    done = same(["alloc=1000", "refused", "exit=0"], place, quiet=False)
    assert b"G3 WARN" in done.stderr, done


def case_line_stands_once(place):
    """What the job's exit handler said is not said again by the launcher, but for where it went elsewhere."""
    for script in '"$@"', '"$@" 2>/dev/null', 'SPARKSHIM_STDERR=0 "$@"':
        job = [sys.executable, str(HERE / "gpu_job.py"), "alloc=10", "refused", "exit=3"]
        done = subprocess.run([str(BUILD / "bin/gb10sim"), str(WORLD), "--", str(BUILD / "bin/sparkshim"), "run", "--", "sh",
                               "-c", script, "sh", *job], env=place.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=100)
        lines = done.stderr.decode().splitlines()
        assert done.returncode == 3 and sum(line.startswith("G3 FAIL: ") for line in lines) == 1, (script, lines)
        assert "sparkshim report " in lines[-1], (script, lines)


def main():
    global BUILD
    BUILD, name = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    tools.DUMP = str(BUILD / "bin/ring_dump")
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="whole.") as folder:
        try:
            globals()[f"case_{name}"](Place(folder))
        finally:
            for path in tools.MOUNTED:
                subprocess.run(["umount", "-l", path], stderr=subprocess.DEVNULL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
