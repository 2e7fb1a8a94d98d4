#!/bin/sh
# preflight.sh - is this Spark fit for a job: G1 G3 G4 G7 G9, one line each.
#
# Calls `sparkshim preflight` where it is installed. Where it is not (a fresh machine, a container), reads what plain
# sh can read, with the same verdicts, and says SKIP for the rest. Status: 0 ready, 1 warnings, 2 blocked, 3 nothing
# could be looked at. SPARKSHIM_ROOT is a simulated machine's root; SPARKSHIM_PREFLIGHT=sh keeps the program out.
set -u

here=$(cd "$(dirname "$0")" && pwd)
mark=
[ -z "${SPARKSHIM_ROOT:-}" ] || mark=" (simulated)"

find_program() {
  for candidate in "$here/sparkshim" "$here/../bin/sparkshim" "$here/../build/bin/sparkshim" "$(command -v sparkshim 2>/dev/null)"; do
    if [ -n "$candidate" ] && [ -x "$candidate" ]; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

# The status is made again of these five lines: the program's own also tells of the others.
by_program() {
  "$1" preflight | grep -E '^G(1|3|4|7|9) '
}

# G3: the free figure of CUDA is MemFree. It misleads when it is a fifth of what can be had, and an eighth of the
# machine, too low, and page cache is the reason (detectors/g03_answer.c judges the same). A contiguous area holds what
# seems to be free, or the kernel counts one that it does not have (detectors/g03_cma.c).
memory_line() {
  file="${SPARKSHIM_ROOT:-}/proc/meminfo"
  [ -r "$file" ] || file=/proc/meminfo
  awk '
    { sub(":", "", $1); v[$1] = $2 }
    END {
      if (!("MemTotal" in v) || !("MemFree" in v) || !("MemAvailable" in v)) {
        print "G3 SKIP: /proc/meminfo could not be read"; exit
      }
      cma = v["CmaTotal"] > 0 ? v["CmaFree"] : 0
      avail = v["MemAvailable"] > cma ? v["MemAvailable"] - cma : 0
      clean = v["MemFree"] > cma ? v["MemFree"] - cma : 0
      cached = v["Cached"] > v["Shmem"] ? v["Cached"] - v["Shmem"] : 0
      cache = cached + v["Buffers"] + v["KReclaimable"]
      gap = avail > v["MemFree"] ? avail - v["MemFree"] : 0
      gib = 1048576
      reserve = v["MemTotal"] / 64 > gib ? v["MemTotal"] / 64 : gib
      area = v["CmaFree"] <= v["CmaTotal"] ? v["CmaFree"] : 0
      if (area >= reserve && area >= v["MemAvailable"] / 2)
        printf "G3 WARN: of %.1f GiB that seem to be available %.1f GiB lie in a contiguous area (CMA), which CUDA does not get; " \
               "fix: count with MemAvailable less CmaFree, and end what holds the rest\n", v["MemAvailable"] / gib, area / gib
      else if (("CmaTotal" in v) && v["CmaTotal"] == 0 && v["CmaFree"] > 0)
        printf "G3 WARN: the kernel counts %.1f GiB of free contiguous memory (CMA) in an area that it does not have: on such " \
               "kernels locking memory was seen to fail with memory free; fix: if RDMA or page-locking fails, start another kernel\n", \
               v["CmaFree"] / gib
      else if (v["HugePages_Total"] == 0 && gap >= avail / 5 && gap >= v["MemTotal"] / 8 && cache >= gap / 2)
        printf "G3 INFO: cudaMemGetInfo says %.1f GiB free although %.1f GiB can be had: it counts page cache as used; " \
               "fix: size the budget from MemAvailable, not from cudaMemGetInfo (or set it by hand)\n", v["MemFree"] / gib, avail / gib
      else
        printf "G3 PASS: %.1f GiB of %.1f GiB can be had, %.1f GiB of that is free and the rest page cache\n", \
               v["MemAvailable"] / gib, v["MemTotal"] / gib, v["MemFree"] / gib
    }' "$file" 2>/dev/null || echo "G3 SKIP: /proc/meminfo could not be read"
}

by_sh() {
  for g in 1 3 4 7 9; do
    if [ "$g" = 3 ]; then
      echo "$(memory_line)$mark"
    else
      echo "G$g SKIP: needs the program sparkshim, which is not installed$mark"
    fi
  done
}

if [ "${SPARKSHIM_PREFLIGHT:-}" != sh ] && program=$(find_program); then
  lines=$(by_program "$program")
else
  lines=$(by_sh)
fi
printf '%s\n' "$lines"
case $lines in
*" FAIL: "*) exit 2 ;;
*" WARN: "*) exit 1 ;;
*" PASS: "* | *" INFO: "*) exit 0 ;;
*) exit 3 ;;
esac
