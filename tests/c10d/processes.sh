#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program as several processes that meet in a file. Ends with 1 if one of them fails, but for
# the one that is to be killed.
# usage: processes.sh RANKS VICTIM PROGRAM ARGUMENT...    VICTIM: the rank that is killed, or none
set -eu
ranks=$1
victim=$2
shift 2
folder=$(mktemp -d "${TMPDIR:-/tmp}/c10d.XXXXXX")
trap 'rm -rf "$folder"' EXIT
export FSSDP_TEST_RANKS="$ranks" FSSDP_TEST_STORE="$folder/store"
rank=0
while [ "$rank" -lt "$ranks" ]; do
  FSSDP_TEST_RANK=$rank "$@" >"$folder/out.$rank" 2>&1 &
  eval "pid_$rank=\$!"
  rank=$((rank + 1))
done
failed=0
rank=0
while [ "$rank" -lt "$ranks" ]; do
  eval "pid=\$pid_$rank"
  code=0
  wait "$pid" || code=$?
  if [ "$rank" = "$victim" ]; then
    [ "$code" -eq 137 ] || { echo "rank $rank ended with $code; expected it to be killed"; failed=1; }
  elif [ "$code" -ne 0 ]; then
    echo "rank $rank ended with $code:"
    cat "$folder/out.$rank"
    failed=1
  fi
  rank=$((rank + 1))
done
[ "$failed" -ne 0 ] || tail -n 3 "$folder/out.0"
exit "$failed"
