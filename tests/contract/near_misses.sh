#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# near_misses.sh FILE CONCEPT COUNT FOLDER COMPILER ARGUMENT...
# Checks that FILE compiles as it is, and that for each LACKS from 1 to COUNT it does not compile,
# because something does not satisfy the concept. All variants are compiled in one go, as reading
# the headers takes longest. Each has a namespace and line numbers of its own, which tell to which
# variant an error belongs.
set -u
file=$1 concept=$2 count=$3 folder=$4
shift 4
export LC_ALL=C  # messages in English, quotes in ASCII

if ! "$@" "$file"; then
  echo "$file does not compile as it is, with nothing missing"
  exit 1
fi

mkdir -p "$folder"
all=$folder/${file##*/}
{
  cat "$file"
  lacks=1
  while [ "$lacks" -le "$count" ]; do
    printf '#undef LACKS\n#define LACKS %d\nnamespace lacks_%d {\n' "$lacks" "$lacks"
    printf '#line %d "near_miss.cpp"\n' "${lacks}0001"
    cat "$file"
    printf '}\n'
    lacks=$((lacks + 1))
  done
} >"$all"
"$@" "$all" >"$all.log" 2>&1

# g++: required for the satisfaction of 'name<T>'; clang++: 'type' does not satisfy 'name', or, of
# a concept of several types, 'name<type, other>' evaluated to false.
awk -v concept="$concept" -v count="$count" '
  BEGIN {
    named = "(the satisfaction of|does not satisfy|because) \x27(fssdp::)?" concept "[<\x27]"
  }
  {
    if (match($0, /lacks_[0-9]+/)) lacks = substr($0, RSTART + 6, RLENGTH - 6) + 0
    else if (match($0, /near_miss\.cpp:[0-9]+/))
      lacks = int(substr($0, RSTART + 14, RLENGTH - 14) / 10000)
  }
  / error: / { ++errors }
  $0 ~ named && !(lacks in found) { found[lacks] = $0 }
  END {
    for (lacks = 1; lacks <= count; ++lacks)
      if (lacks in found)
        print lacks " fails: " found[lacks]
      else {
        print "LACKS=" lacks " compiles, or fails without naming " concept
        wrong = 1
      }
    if (errors < count) {
      print "only " errors + 0 " errors for " count " variants"
      wrong = 1
    }
    exit wrong
  }' "$all.log" && exit
cat "$all.log"
exit 1
