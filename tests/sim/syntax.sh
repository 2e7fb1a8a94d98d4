#!/bin/sh
# Scenario mistakes are told with file and line; exit status, signal and files of the program itself.
# Usage: syntax.sh GB10SIM...
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0
fail() { echo "$1"; failures=$((failures + 1)); }

sim="$*"
# bad "statement" "text that must stand in the message": on line 2 of the file
bad() {
  printf 'include gb10-idle.scn\n%s\n' "$1" >"$dir/bad.scn"
  text=$($sim "$dir/bad.scn" -- true 2>&1)
  [ $? -eq 125 ] || fail "not refused with 125: $1"
  case $text in *"bad.scn:2: "*"$2"*) ;; *) fail "message for '$1': $text" ;; esac
}

bad 'MemFri 12' 'unknown word "MemFri"'
bad 'MemFree twelve' 'not a value'
bad 'MemFree 12 parsecs' 'not a value'
bad 'at 5s MemFri 12' 'unknown word'
bad 'at soon MemFree 12' 'at TIME LINE'
bad 'over 1s MemFree 1GiB' 'over SPAN'
bad 'fail cudaMalloc' 'code N'
bad 'fail cudaMalloc code 2 sometimes' 'cannot read "sometimes"'
bad 'block cudaMalloc nth 2' 'for TIME'
bad 'delay cudaMalloc nth 2' 'by TIME'
bad 'process 12 parent 1' 'needs a name'
bad 'include no-such.scn' 'no such file'
bad 'preload rocm' 'preload'
bad 'host "two words' 'quote'

echo 'include gb10-idle.scn' >"$dir/good.scn"
$sim "$dir/good.scn" -- sh -c 'exit 7'
[ $? -eq 7 ] || fail "exit status is not passed on"
$sim "$dir/good.scn" -- /no/such/program 2>/dev/null
[ $? -eq 127 ] || fail "a missing program is not 127"
$sim 2>/dev/null
[ $? -eq 125 ] || fail "no arguments is not 125"
sh -c "$sim $dir/good.scn -- sh -c 'kill -TERM \$\$'; exit \$?" 2>/dev/null
[ $? -eq 143 ] || fail "a signal is not passed on"

# Names: of a base world, of a file in $GB10SIM_SCENARIOS, of a file here, which comes first.
total() { "$@" -- sh -c 'grep MemTotal: "$SPARKSHIM_ROOT/proc/meminfo"' | tr -dc 0-9; }
cd "$dir" || exit 1
mkdir more loaded
echo 'include near-edge' >more/mine.scn
echo 'MemTotal 7kB' >more/extra
for name in idle gb10-idle gb10-idle.scn loaded; do
  [ "$(total $sim $name)" = 127535084 ] || fail "base world by the name $name"
done
[ "$(GB10SIM_SCENARIOS=$dir/more total $sim mine.scn extra)" = 7 ] || fail "a file in GB10SIM_SCENARIOS"
echo 'MemTotal 5kB' >idle
[ "$(total $sim idle)" = 5 ] || fail "a file here comes before a base world"
text=$($sim idel -- true 2>&1)
[ $? -eq 125 ] || fail "an unknown name is not refused with 125"
case $text in *"idel: no such file"*" near-edge"*) ;; *) fail "message for an unknown name: $text" ;; esac

$sim --keep "$dir/world" "$dir/good.scn" -- true || fail "--keep"
grep -q '^MemTotal: *127535084 kB$' "$dir/world/root/proc/meminfo" || fail "meminfo of the kept world"
grep -q 'NVIDIA GB10' "$dir/world/root/proc/driver/nvidia/gpus/"*/information || fail "driver's information file"
[ "$(cat "$dir/world/root/proc/2101/comm")" = /usr/lib/xorg/X ] || fail "comm of another process"
root=$(env -u LD_PRELOAD $sim "$dir/good.scn" -- sh -c 'echo "$SPARKSHIM_ROOT"')
[ -n "$root" ] || fail "no SPARKSHIM_ROOT in the job"
[ -e "$root" ] && fail "the temporary world is left behind: $root"
exit $failures
