#!/usr/bin/env python3
"""Scenes of job.cc bare, under the library, and under the launcher: they print the same and end the same.

  stress.py BUILD JOB STUB [--before LIB] [--behind LIB] [--env NAME=VALUE] SCENE [ARGUMENT...]

LIB is another library in LD_PRELOAD, before or behind ours.

Then the logs are looked at: all of them are whole, and where a function check_<scene> knows what has to be in them, it is.
An argument refuse=A:B:C,1:38 stands for refuse=A,1, refuse=A,38, refuse=B,1, ... In the arguments {dir} is a fresh folder. Exit 77: the machine does not allow the scene."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import check_log  # noqa: E402

BUILD, JOB, STUB, *rest = sys.argv[1:]
OTHERS, EXTRA = {"--before": [], "--behind": []}, {}
while rest[0].startswith("--"):
    option, value, *rest = rest
    if option == "--env":
        EXTRA.update([value.split("=", 1)])
    else:
        OTHERS[option].append(value)
SCENE, *WORDS = rest
SECONDS = 100
CANNOT = 77


def play(how, base):
    """A scene in one of the three ways; its logs lie below base / how."""
    place = base / how
    (place / "files").mkdir(parents=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(place), "SPARKSHIM_DIR": str(place / "logs"), "SPARKSHIM_STDERR": "0"}
    command = [JOB, STUB, SCENE, *(w.format(dir=place / "files") for w in WORDS)]
    ours = [f"{BUILD}/lib/libsparkshim.so"] if how == "library" else []
    env.update(EXTRA, LD_PRELOAD=":".join([*OTHERS["--before"], *ours, *OTHERS["--behind"]]))
    if how == "launcher":
        command = [f"{BUILD}/bin/sparkrun", *command]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, cwd=place)
    return done.returncode, done.stdout.decode().replace(str(place), "{place}"), done.stderr.decode()


def of_kind(logs, kind, **fields):
    return [r for log in logs for r in log if r["k"] == kind and all(r.get(n) == v for n, v in fields.items())]


def expect(found, wanted, what):
    assert found == wanted, f"{what}: {found}, not {wanted}"


def check_threads(logs):
    (stats,) = of_kind(logs, "alloc_stats")
    n = int(WORDS[0]) * 20
    expect((stats["count"], stats["frees"], stats["live"]), (n, n, 0), "allocations")


def check_again(logs):
    expect(len(logs), int(WORDS[0]) + 1, "logs")
    expect(len({log[0]["pid"] for log in logs}), 1, "processes")


def check_processes(logs):
    expect(len(logs), int(WORDS[0]) + 1, "logs")
    expect(len(of_kind(logs, "exit", status=0)), len(logs), "exit records")
    expect(sum(r["count"] for r in of_kind(logs, "alloc_stats")), 5 * int(WORDS[0]), "allocations")


def check_elsewhere(logs):
    expect(len(logs), 3, "logs where the first process stood")


def check_held(logs):
    expect(len(logs), 3, "logs")
    expect(len(of_kind(logs, "exit", status=0)), 3, "exit records")
    expect(len(of_kind(logs, "load", family="cudart")), 3, "loads")
    expect(len(of_kind(logs, "load_failed")), 0, "failed loads")


def check_load_loop(logs):
    expect(len(of_kind(logs, "load_failed")), 0, "failed loads")
    (stats,) = of_kind(logs, "alloc_stats")
    expect(stats["count"], int(WORDS[0]), "allocations")


def read(place):
    """The logs of processes; the launcher's apart."""
    paths = sorted(place.glob("logs/runs/*/*.ndjson"))
    return [check_log.records(p) for p in paths if not p.name.startswith("launcher-")]


def scenes():
    """The arguments of every scene that is meant."""
    if not WORDS or not WORDS[0].startswith("refuse="):
        return [WORDS]
    calls, errors = WORDS[0][len("refuse="):].split(",")
    return [[f"refuse={call},{error}", *WORDS[1:]] for call in calls.split(":") for error in errors.split(":")]


def one_scene():
    with tempfile.TemporaryDirectory(prefix="stress-") as folder:
        base = pathlib.Path(folder)
        bare = play("bare", base)
        if bare[0] == CANNOT:
            print(bare[1])
            return CANNOT
        for how in ("library", "launcher"):
            expect(play(how, base), bare, f"{how} {' '.join(WORDS)}")
            logs = read(base / how)
            assert logs or SCENE == "limited", "no logs"
            check = globals().get("check_" + SCENE)
            if check and not OTHERS["--before"]:  # what stands in front may lead look-ups past us
                check(logs)
    return 0


def main():
    global WORDS
    for words in scenes():
        WORDS = words
        status = one_scene()
    return status


if __name__ == "__main__":
    sys.exit(main())
