#!/bin/bash
# The example job of scripts/quickstart on the simulated Spark: it learns, it runs out of memory, sparkshim says why,
# and the job itself does not notice sparkshim.   train.sh BUILD SOURCE
set -euo pipefail
build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SPARKSHIM_DIR=$work/logs HOME=$work
cd "$work"

fail() { echo "FAILED: $*"; exit 1; }

"$build/bin/gb10sim" "$source/tests/gb10sim/base/gb10-idle.scn" -- "$build/bin/train" --steps 300 >healthy 2>healthy.err ||
  { cat healthy healthy.err; fail "the healthy job ended with $?"; }
python3 - healthy <<'PY' || fail "the loss does not fall"
import re, sys
losses = [float(x) for x in re.findall(r"loss ([0-9.]+)", open(sys.argv[1]).read())]
print("losses:", losses)
sys.exit(not (len(losses) >= 4 and losses[-1] < 0.01 < 0.3 < losses[0] and losses == sorted(losses, reverse=True)))
PY

status=0
"$build/bin/gb10sim" "$source/examples/quickstart.scn" -- "$build/bin/train" --grow >bare 2>bare.err || status=$?
[ "$status" = 1 ] || fail "without sparkshim the growing job ended with $status, not 1"
status=0
"$build/bin/gb10sim" "$source/examples/quickstart.scn" -- "$build/bin/sparkrun" "$build/bin/train" --grow >shim 2>shim.err || status=$?
cat shim shim.err
[ "$status" = 1 ] || fail "under sparkrun the growing job ended with $status, not 1"
cmp bare shim || fail "the job's output differs under sparkrun"
grep -qx "$(tail -n 1 bare.err)" shim.err || fail "the job's own error text is gone"
grep -q '^G3 FAIL: .*page cache.*(simulated)$' shim.err || fail "no diagnosis"
status=0
"$build/bin/sparkshim" report >report || status=$?
cat report
[ "$status" = 2 ] || fail "the report ended with $status, not 2"
grep -q alloc_refused_reclaimable report || fail "the report does not name the cause"
