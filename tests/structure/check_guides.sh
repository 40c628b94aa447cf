#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that a test includes each block of C++ of the guides below DIR (tests/guides/extract.sh
# says how), and that there is a block for all that tests include. A whole program is not included: it is
# also an example, with which check_readme.sh compares it. Prints file:line and the reason.
# usage: check_guides.sh DIR SCRATCH_DIR
cd "${1:?usage: check_guides.sh DIR SCRATCH_DIR}" || exit 1
scratch=${2:?usage: check_guides.sh DIR SCRATCH_DIR}
rm -rf "$scratch"
sh tests/guides/extract.sh . "$scratch" >/dev/null || exit 1
included=$(grep -rhoE --include='*.[ch]*' '^#include "guides/.*\.inc"' tests |
  sed 's/^[^"]*"//; s/"$//' | LC_ALL=C sort)
blocks=$(cd "$scratch" && find guides -name '*.inc' | LC_ALL=C sort)
failed=0
for block in $blocks; do
  grep -q '^int main(' "$scratch/$block" && continue
  echo "$included" | grep -qxF "$block" && continue
  place=$(sed -n '1s/^#line \([0-9]*\) "\(.*\)"/\2:\1/p' "$scratch/$block")
  echo "$place: no test includes this block: expected #include \"$block\""
  failed=1
done
for block in $included; do
  [ -f "$scratch/$block" ] && continue
  echo "tests include \"$block\", and the guide has no such block"
  failed=1
done
[ -n "$blocks" ] || { echo "the guides below $1 have no block of C++"; failed=1; }
rm -rf "$scratch"
exit $failed
