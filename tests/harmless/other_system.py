#!/usr/bin/env python3
"""The suites that load the library, run with this build inside another distribution: another glibc, loader and Python.

other_system.py NAME SOURCE BUILD     NAME: trixie (Debian 13) or noble (Ubuntu 24.04)

The system is made once by debootstrap, in ~/.cache/sparkshim/systems/NAME. Source and build are mounted into it at
their own paths, in a mount namespace that ends with the test. Needs root and a mirror; 77 where it has neither. Only
systems with a glibc at least as new as the one that built: older ones cannot run the test programs.
"""
import os
import shutil
import subprocess
import sys

SYSTEMS = {"trixie": "http://deb.debian.org/debian", "noble": "http://archive.ubuntu.com/ubuntu"}
PACKAGES = ["python3", "python3-jsonschema", "libjansson4", "libunwind8", "libcmocka0", "e2fsprogs", "cmake", "procps", "util-linux", "strace", "gdb",
            "binutils", "file", "gcc", "libc6-dev"]
SUITES = "^(unit|loader|log|launcher|sim|case|route)\\."
NOT = "unit.prototypes" # compares hooks.def with the CUDA headers, which stay outside
ENOUGH = 100  # suites above hold more tests than this; fewer passed means that they were not found or skipped


def make(name, folder):
    """True when the system is there. A half-made one, and one with other packages, is thrown away."""
    ready = os.path.join(folder, ".packages")
    if os.path.exists(ready) and open(ready).read().split() == PACKAGES:
        return True
    shutil.rmtree(folder, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", "--components=main,universe" if name == "noble" else "--components=main",
               "--include=" + ",".join(PACKAGES)]
    # Debian knows no newer Ubuntu than its own age: all of them are made by one script, and signed by a key that may not be here.
    script = ["/usr/share/debootstrap/scripts/gutsy"] if name == "noble" else []
    if name == "noble" and not os.path.exists("/usr/share/keyrings/ubuntu-archive-keyring.gpg"):
        command.append("--no-check-gpg")
    made = subprocess.run(command + [name, folder, SYSTEMS[name]] + script, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if made.returncode:
        print("debootstrap %s failed:\n%s" % (name, "\n".join(made.stdout.splitlines()[-3:])))
        return False
    with open(ready, "w") as f:
        f.write("\n".join(PACKAGES))
    return True


def main():
    name, source, build = sys.argv[1], os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
    if os.geteuid() or not shutil.which("debootstrap") or not shutil.which("unshare"):
        print("needs root, debootstrap and unshare")
        return 77
    folder = os.path.join(os.path.expanduser("~"), ".cache", "sparkshim", "systems", name)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    if not make(name, folder):
        return 77
    for path in (source, build):
        os.makedirs(folder + path, exist_ok=True)
    script = """
      set -e
      mount --bind "$2" "$1$2"
      case "$3" in "$2"/*) ;; *) mount --bind "$3" "$1$3" ;; esac
      mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"; mount --rbind /sys "$1/sys"
      mount -t tmpfs tmpfs "$1/tmp"
      exec chroot "$1" ctest --test-dir "$3" -R "$4" -E "$5" -LE 'torch|long' --no-tests=error --output-on-failure
    """
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    ran = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", folder, source, build, SUITES, NOT], env=env,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = ran.stdout.splitlines()
    passed = sum(" Passed " in line for line in lines)
    shown = [line for line in lines if " Passed " not in line and " Start " not in line]
    print("\n".join(shown[-200:]))
    print("%s: %d passed" % (name, passed))
    return ran.returncode or (0 if passed >= ENOUGH else 1)


if __name__ == "__main__":
    sys.exit(main())
