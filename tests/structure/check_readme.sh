#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that the README shows the first program as it is, and that it has under 200 lines.
# usage: check_readme.sh DIR
cd "${1:?usage: check_readme.sh DIR}" || exit 1
lines=$(wc -l <README.md)
[ "$lines" -lt 200 ] || { echo "README.md has $lines lines; expected under 200"; exit 1; }

shown=$(awk '/^```cpp$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' README.md)
[ -n "$shown" ] || { echo "README.md shows no program"; exit 1; }
# every line of it, in this order, with other lines of the example between them at most
printf "%s\n" "$shown" | awk '
  NR == FNR { example[++n] = $0; next }
  /^[ \t]*$/ { next }
  {
    while (at < n && example[++at] != $0) {}
    if (example[at] != $0) { print "not in examples/01_first_program.cpp: " $0; failed = 1; exit 1 }
  }
  END { exit failed }
' examples/01_first_program.cpp -
