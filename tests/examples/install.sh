#!/bin/bash
# What `cmake --install` puts somewhere works there: the program finds its library.   install.sh CMAKE BUILD
set -euo pipefail
cmake=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SPARKSHIM_DIR=$work/logs HOME=$work
fail() { echo "FAILED: $*"; exit 1; }

"$cmake" --install "$build" --prefix "$work/place" >log || { cat log; fail "cmake --install"; }
for file in bin/sparkshim bin/sparkrun share/doc/sparkshim/README.md; do
  [ -e "$work/place/$file" ] || { find "$work/place"; fail "$file is not installed"; }
done
for program in "$work/place/bin/sparkshim run --" "$work/place/bin/sparkrun"; do
  mapped=$($program grep -o '/[^ ]*/libsparkshim\.so' /proc/self/maps | sort -u) || fail "$program: the library is not mapped"
  echo "$program: $mapped"
  case "$mapped" in "$work"/place/*) ;; *) fail "not the installed library: $mapped" ;; esac
done
