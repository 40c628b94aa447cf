#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How long it takes to compile files of users: sh bench/compile_time.sh [--json] [OPTION...]
#
#   --json     print a JSON array instead of the table
#   OPTION     options for the compiler, instead of -O2
#
# CXX is the compiler (c++). Each file is compiled three times; the table has the median. Files are
# compiled as by users of the headers, and after "compiled:" as by users of the target
# fssdp::compiled. "collectives", "planning" and "beside_training" are what that target compiles
# itself, once for a program. Memory is the most that the compiler used, by /usr/bin/time; without
# that program the column is 0.
set -eu
usage() { sed -n '3,12s/^# \{0,1\}//p' "$0"; }

json=no
options=''
for argument; do
  case $argument in
    --json) json=yes ;;
    --help | -h) usage; exit 0 ;;
    *) options="$options $argument" ;;
  esac
done
options=${options:- -O2}
cd -- "$(dirname -- "$0")/.."
compiler=${CXX:-c++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo '#include "fssdp/fssdp.hpp"' >"$work/umbrella.cpp"
echo '#include "fssdp/all.hpp"' >"$work/all.cpp"

compile() {  # compile FILE: "seconds megabytes", once
  if [ -x /usr/bin/time ]; then
    # shellcheck disable=SC2086  # lists of options
    /usr/bin/time -f '%e %M' -o "$work/cost" \
      $compiler -std=c++20 $options -Iinclude -Iexamples -c "$1" -o "$work/object" >&2
    awk 'END { printf "%.2f %d\n", $1, $2 / 1000 }' "$work/cost"
  else
    begin=$(date +%s%N)
    # shellcheck disable=SC2086
    $compiler -std=c++20 $options -Iinclude -Iexamples -c "$1" -o "$work/object" >&2
    echo "$begin $(date +%s%N)" | awk '{ printf "%.2f 0\n", ($2 - $1) / 1e9 }'
  fi
}

measure() {  # measure NAME FILE: "name seconds megabytes lines kilobytes"
  # shellcheck disable=SC2086
  lines=$($compiler -std=c++20 $options -Iinclude -Iexamples -E "$2" | grep -vc '^#')
  middle=$( (compile "$2"; compile "$2"; compile "$2") | sort -n | sed -n 2p)
  echo "$1 $middle $lines $(($(wc -c <"$work/object") / 1000))"
}

{
  for where in '' compiled:; do
    if [ -n "$where" ]; then options="$options -DFSSDP_COMPILED"; fi
    measure "${where}umbrella" "$work/umbrella.cpp"
    measure "${where}all" "$work/all.cpp"
    measure "${where}first_program" examples/01_first_program.cpp
    measure "${where}own_layout" examples/03_own_layout.cpp
    measure "${where}own_solver" examples/04_own_solver.cpp
    measure "${where}trainer" examples/moe_gpt/train_on.cpp
    measure "${where}trainer_checkpoint" examples/moe_gpt/checkpoint.cpp
  done
  measure compiled:collectives src/compiled_collectives.cpp
  measure compiled:planning src/compiled_planning.cpp
  measure compiled:beside_training src/compiled_beside_training.cpp
} | awk -v json=$json -v compiler="$compiler$options" '
  json == "yes" {
    printf "%s {\"file\": \"%s\", \"seconds\": %s, \"megabytes\": %s, \"lines\": %s, \"object_kilobytes\": %s}",
           NR == 1 ? "[\n" : ",\n", $1, $2, $3, $4, $5
  }
  json == "no" {
    if (NR == 1) {
      print compiler
      printf "%-28s %8s %8s %10s %10s\n", "file", "seconds", "MB", "lines", "object kB"
    }
    printf "%-28s %8s %8s %10s %10s\n", $1, $2, $3, $4, $5
    fflush()
  }
  END { if (json == "yes") print "\n]" }'
