#!/usr/bin/env python3
"""SPARKSHIM_RELIEF=cache in a real job (relief_job.c) on the simulated Spark.

  test_relief.py BUILD CASE

Refusals come from the world file; files, mappings and page cache are this machine's, and what is cached is counted by the
test itself. Exit 77: the case needs what this machine does not have, and says what."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
import check_log  # noqa: E402
from page_cache import cached, most, reason_not_to_test  # noqa: E402

BUILD = None
SKIP = 77
MIB = 1 << 20
SIZE = 64 * MIB  # the least that counts as a data file
NOBODY = 65534
CACHE_IN_THE_WAY = ["include gb10-idle.scn", "MemFree 2GiB", "MemAvailable 112GiB", "Cached 110GiB", "reclaim 1"]


def skip(why):
    print(f"left out: {why}")
    sys.exit(SKIP)


class Place:
    """A folder with a world, data files and what a run left."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        reason = reason_not_to_test(self.folder)
        if reason:
            skip(reason)
        self.user = {}

    def file(self, name, size=SIZE, begins=b""):
        path = self.folder / name
        block = os.urandom(MIB)
        with open(path, "wb") as file:
            file.write(begins + block[len(begins):])
            file.write(block * (size // MIB - 1))
            file.flush()
            os.fsync(file.fileno())
        assert most(cached(path), size), (name, cached(path))
        return path

    def run(self, words, refused=range(1, 2), relief="cache", world=(), root=None):
        """The job under the library. `refused`: which calls of cudaMalloc are, the second ones counted. The library's own
        lines and the job's are apart; stdout has the job's words alone."""
        path = self.folder / "world.scn"
        path.write_text("\n".join([*CACHE_IN_THE_WAY, *world, *(f"fail cudaMalloc nth {n} code 2" for n in refused)]) + "\n")
        state = self.folder / "state"
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "SPARKSHIM_DIR": str(state)}
        if relief:
            env["SPARKSHIM_RELIEF"] = relief
        job = [str(BUILD / "bin/jobs/relief_job"), *map(str, words)]
        change = f"SPARKSHIM_ROOT='{root}'" if root else ""
        job = ["sh", "-c", f'LD_PRELOAD="$0:$LD_PRELOAD" {change} exec "$@"', str(BUILD / "lib/libsparkshim.so"), *job]
        done = subprocess.run([str(BUILD / "bin/gb10sim"), str(path), "--", *job], env=env, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=100, **self.user)
        self.lines = [line for line in done.stderr.splitlines() if re.match(r"G3 \w+: ", line)]
        self.rounds = int(re.search(r"^rounds (\d+)$", done.stderr, re.M)[1]) if done.returncode == 0 else None
        self.records = [r for log in sorted(state.glob("runs/*/*.ndjson")) for r in check_log.records(log)]
        self.said = done.stdout.splitlines()
        assert done.returncode == 0, done
        assert "wrong 0" in self.said, done
        return done

    def kind(self, kind):
        return [r for r in self.records if r["k"] == kind]

    def states(self, name):
        return [tuple(map(int, re.findall(r" (\d+)", line))) for line in self.said if line.startswith(f"{name}:")]


GRANTED = "cudaMalloc -> 0, errno 0, last error 0"
REFUSED = "cudaMalloc -> 2, errno 0, last error 2"


def case_refused_call_is_granted(place):
    """One refusal: the files go, the job sees success and no trace of the refusal, and it is said once."""
    names = {how: place.file(how) for how in ("shared", "private", "loader", "open")}
    place.run([*(f"{how}:{path}" for how, path in names.items()), *(f"state:{how}" for how in ("shared", "private", "loader")),
               "malloc:1", *(f"state:{how}" for how in ("shared", "private", "loader"))])
    assert place.said.count(GRANTED) == 1 and REFUSED not in place.said, place.said
    (relief,) = place.kind("relief")
    assert (relief["call"], relief["route"], relief["size"], relief["result"]) == ("cudaMalloc", "device", 64 << 30, 0), relief
    assert relief["files"] == 4 and most(relief["dropped"], 4 * SIZE), relief
    assert {how: cached(path) for how, path in names.items()} == dict.fromkeys(names, 0)
    for how in ("shared", "private", "loader"):
        before, after = place.states(how)
        assert before[0] >= SIZE // 1024 and after[0] == 0, (how, before, after)
    assert len(place.lines) == 1 and " was refused and then granted: 0.3 GiB of page cache of 4 data files" in place.lines[0], place.lines
    assert not place.kind("alloc_failed"), "the job saw no refusal"
    files = {pathlib.Path(r["path"]).name: r["how"] for r in place.kind("data_file")}
    assert files == {"shared": "mapped", "private": "mapped", "loader": "mapped", "open": "open"}, files


def case_closed_files_go_first(place):
    """A loader has read one file after the other and closed them: they go, and then nothing that is in use has to."""
    closed, used = [place.file(f"shard{i}") for i in range(3)], place.file("used")
    root = place.folder / "root"
    (root / "proc").mkdir(parents=True)
    serve_meminfo(root / "proc/meminfo", lambda: {
        "MemTotal": 122, "MemFree": 80 if not any(map(cached, closed)) else 2, "MemAvailable": 112, "Cached": 110})
    place.run([*(f"open:{path}" for path in closed), "malloc:1", "close", f"shared:{used}", "malloc:1"], refused=(2,), root=root)
    assert place.said.count(GRANTED) == 2, place.said
    (relief,) = place.kind("relief")
    assert relief["files"] == 3 and most(relief["dropped"], 3 * SIZE), relief
    assert [cached(path) for path in closed] == [0, 0, 0] and most(cached(used), SIZE)


def case_nothing_to_drop(place):
    """The job has read no large file: the call is not made again."""
    place.run(["malloc:1"])
    assert place.said[0] == REFUSED and not place.kind("relief") and len(place.kind("alloc_failed")) == 1, place.records


def case_off_unless_asked_for(place):
    """Without the variable, and with another value: the refusal is passed on, nothing is dropped, smaps is not read."""
    path = place.file("shared")
    for relief in (None, "1", "cache,", ""):
        place.run(["smaps-watched", f"shared:{path}", "malloc:2"], relief=relief)
        assert place.said[:2] == [REFUSED, GRANTED] and "smaps opened: no" in place.said, place.said
        assert not place.kind("relief") and place.kind("alloc_failed"), place.records
        assert most(cached(path), SIZE)
    place.run(["smaps-watched", f"shared:{path}", "malloc:1"])
    assert "smaps opened: yes" in place.said, "the watch sees what it is to see"


def case_second_refusal_is_passed_on(place):
    """The second call is refused too: the job sees exactly that, the refusal is judged, and no further relief is tried."""
    path = place.file("shared")
    place.run([f"shared:{path}", "malloc:3"], refused=(1, 2, 3))
    assert place.said[:3] == [REFUSED, REFUSED, GRANTED], place.said
    (relief,) = place.kind("relief")
    assert relief["result"] == 2, relief
    assert [r["result"] for r in place.kind("alloc_failed")] == [2, 2]
    assert any(" was refused twice: " in line for line in place.lines), place.lines
    assert any(re.match("G3 WARN: cudaMalloc of 64.0 GiB was refused with error 2", line) for line in place.lines), place.lines


def case_other_refusals_are_left_alone(place):
    """Memory that is used up, cache that is not enough, other errors: nothing is dropped."""
    path = place.file("shared")
    worlds = {"used up": ["MemFree 2GiB", "MemAvailable 4GiB", "Cached 2GiB"],
              "not enough": ["MemFree 2GiB", "MemAvailable 40GiB", "Cached 38GiB"],
              "free": ["MemFree 100GiB", "MemAvailable 110GiB", "Cached 10GiB"],
              "huge pages": ["HugePages_Total 100", "HugePages_Free 100", "Hugepagesize 2048"]}
    for world in worlds.values():
        place.run([f"shared:{path}", "malloc:1"], world=world)
        assert place.said[0] == REFUSED and not place.kind("relief"), (world, place.said)
    place.run([f"shared:{path}", "malloc:1"], refused=(), world=["fail cudaMalloc nth 1 code 1"])
    assert place.said[0].startswith("cudaMalloc -> 1,") and not place.kind("relief"), place.said
    assert most(cached(path), SIZE)


def case_what_is_never_touched(place):
    """Own changes of a private mapping, locked and registered memory, what is being written, ELF objects, small files."""
    files = {how: place.file(how) for how in ("changed", "registered", "results", "append")}
    files["elf"] = place.file("elf", begins=b"\x7fELF")
    files["small"] = place.file("small", SIZE - MIB)
    how = {"elf": "shared", "small": "shared"}
    names = [n for n in files if n != "append"]
    words = [f"{how.get(name, name)}:{path}" for name, path in files.items()]
    words.append(f"shared:{place.file('goes')}")  # without a file that goes the call would not be made again
    place.run([*words, *(f"state:{n}" for n in names), "watch", *(3 * ["malloc:1", "wait"]), *(f"state:{n}" for n in names)],
              refused=range(1, 6, 2))
    assert place.said.count(GRANTED) == 3, place.said
    # Each time what has been read again by then, and of the others next to nothing.
    assert [SIZE // 8 < r["dropped"] < SIZE + MIB for r in place.kind("relief")] == [True] * 3, place.kind("relief")
    for name in names:
        before, after = place.states(name)
        assert after == before, (name, before, after)
    for name in ("registered", "results", "elf", "small", "append"):
        assert most(cached(files[name]), SIZE), (name, cached(files[name]))
    anonymous = place.states("changed")[0][1]
    assert anonymous == SIZE // 16 // 1024, anonymous


def case_locked_memory_stays(place):
    path = place.file("locked")
    try:
        place.run([f"locked:{path}", f"shared:{place.file('goes')}", "state:locked", "malloc:1", "state:locked"])
    except AssertionError as error:
        if "mlock" in str(error):
            skip("RLIMIT_MEMLOCK does not allow 64 MiB")
        raise
    before, after = place.states("locked")
    assert after == before and most(cached(path), SIZE), (before, after)
    assert len(place.kind("relief")) == 1


def case_data_stays_right(place):
    """Two threads read everything again and again and compare while the cache is taken away under them 20 times."""
    times = 20
    files = {how: place.file(how) for how in ("shared", "private", "loader", "changed", "registered")}
    place.run([*(f"{how}:{path}" for how, path in files.items()), "watch", "wait", f"malloc:{times}", "wait"],
              refused=range(1, 2 * times, 2))
    assert place.said.count(GRANTED) == times, place.said
    reliefs = place.kind("relief")
    assert len(reliefs) == times and all(r["result"] == 0 for r in reliefs)
    dropped = sum(r["dropped"] for r in reliefs)
    assert dropped > times * SIZE / 4, dropped
    assert place.rounds >= 4, place.rounds
    print(f"{place.rounds} rounds over 320 MiB, all right; {dropped / MIB:.0f} MiB dropped in {times} reliefs, "
          f"{sum(r['wall_us'] for r in reliefs) / 1e3:.0f} ms")


def case_file_of_somebody_else(place):
    """Who may only read the file: mapped pages stay (MADV_PAGEOUT asks for more), what is only cached goes."""
    if os.geteuid():
        skip("needs root, to become another user")
    files = {how: place.file(how) for how in ("shared", "open")}
    os.chmod(place.folder, 0o777)
    for path in files.values():
        os.chmod(path, 0o644)
    for folder in (BUILD / "bin", place.folder):
        while folder != folder.parent:
            if folder.stat().st_mode & 0o005 != 0o005:
                skip(f"{folder} is closed to other users")
            folder = folder.parent
    place.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    place.run([*(f"{how}:{path}" for how, path in files.items()), "malloc:1"])
    assert place.said[0] == GRANTED, place.said
    assert most(cached(files["shared"]), SIZE) and cached(files["open"]) == 0, {h: cached(p) for h, p in files.items()}


def case_evict_of_a_run(place):
    """`sparkshim evict --run` drops what the job had mapped and open, also what it had opened while it took memory."""
    files = {how: place.file(how) for how in ("shared", "open")}
    other = place.file("other")
    place.run([*(f"{how}:{path}" for how, path in files.items()), "malloc:1"], refused=(), relief=None)
    assert all(most(cached(path), SIZE) for path in files.values())
    env = {"PATH": os.environ["PATH"], "SPARKSHIM_DIR": str(place.folder / "state")}
    (run,) = (place.folder / "state/runs").iterdir()

    def evict(*words):
        return subprocess.run([str(BUILD / "bin/sparkshim"), "evict", *words], env=env, capture_output=True, text=True, timeout=60)
    done = evict("--json", "--run", run.name)
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and sorted(pathlib.Path(f["path"]).name for f in answer["files"]) == ["open", "shared"], done
    assert [cached(path) for path in files.values()] == [0, 0] and most(cached(other), SIZE)
    done = evict("--run", "no such run")
    assert done.returncode == 3 and "there is no run 'no such run'" in done.stderr, done


def serve_meminfo(path, figures):
    """Every reader of the FIFO gets what figures() says at that moment."""
    def serve():
        while True:
            with open(path, "w", encoding="ascii") as fifo:
                fifo.writelines(f"{key}: {gib << 20} kB\n" for key, gib in figures().items())
            time.sleep(0.003)  # the reader has to see the end before the next beginning
    os.mkfifo(path)
    threading.Thread(target=serve, daemon=True).start()


def case_stops_when_it_is_enough(place):
    """MemFree suffices as soon as two files are gone: the others keep their cache."""
    files = [place.file(f"shard{i}") for i in range(5)]
    root = place.folder / "root"
    (root / "proc").mkdir(parents=True)

    def figures():
        free = 80 if sum(cached(path) == 0 for path in files) >= 2 else 2
        return {"MemTotal": 122, "MemFree": free, "MemAvailable": 112, "Cached": 110}
    serve_meminfo(root / "proc/meminfo", figures)
    words = [f"{how}:{path}" for how, path in zip(("shared", "private", "shared", "open", "open"), files)]
    place.run([*words, "malloc:1"], root=root)
    assert place.said[0] == GRANTED, place.said
    (relief,) = place.kind("relief")
    assert (relief["files"], relief["free_after"], relief["mem_free"]) == (2, 80 << 30, 2 << 30), relief
    left = sorted(cached(path) for path in files)
    assert left[:2] == [0, 0] and all(most(n, SIZE) for n in left[2:]), left


def main():
    global BUILD
    BUILD = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="sparkshim-relief-") as folder:
        globals()[f"case_{sys.argv[2]}"](Place(folder))


if __name__ == "__main__":
    main()
