#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Kills or stops a process at a random place in a step of a training, many times: all others get an
# error in time, at least one names the process, and they end. Further options of mpirun come from
# its environment variables.
# Ends with 77 where processes cannot be found.
# usage: check_broken_steps.sh PROGRAM RUNS [FIRST_SEED]
set -eu
pgrep -f . >/dev/null 2>&1 || { echo "skipped: no pgrep here, or no /proc"; exit 77; }
program=${1:?usage: check_broken_steps.sh PROGRAM RUNS [FIRST_SEED]}
runs=$2
first=${3:-1}
slack=10000  # milliseconds: for a machine that has other things to do
made=$(mktemp -d "${TMPDIR:-/tmp}/broken.XXXXXX")
# shellcheck disable=SC2317  # the trap calls it
clean_up() {
  for pid in $(processes) $mpirun; do kill -9 "$pid" 2>/dev/null || true; done
  rm -rf "$made"
}
mpirun=''
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

# A text as an expression that matches it alone.
literal() { printf %s "$1" | sed 's/[][\\.*^$+?(){}|]/\\&/g'; }
processes() { pgrep -f -- "^$(literal "$program") $seed $fault $deadline\$" || true; }
victim() { sed -n 's/^the victim .* in process \([0-9]*\) at .*/\1/p' "$made/out"; }
others() { processes | grep -vx "$(victim)" || true; }
fail() {
  echo "seed $seed, $fault, lent: $lends: $1"
  cat "$made/out" "$made/err"
  exit 1
}
patiently() {  # patiently COMMAND: until it prints nothing, for a while
  tries=600
  while [ -n "$($1)" ]; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || fail "still there: $1: $($1)"
    sleep 0.1
  done
}
still_running() { kill -0 "$mpirun" 2>/dev/null && echo "$mpirun"; true; }

break_step() {  # break_step MILLISECONDS: with this deadline
  deadline=$1
  "${MPIRUN:-mpirun}" --enable-recovery -np "$ranks" "$program" "$seed" "$fault" "$deadline" \
    >"$made/out" 2>"$made/err" &
  mpirun=$!
  until [ -n "$(processes)" ] || [ -z "$(still_running)" ]; do sleep 0.02; done
  patiently others
  for pid in $(processes); do kill -9 "$pid" || true; done
  patiently still_running
  wait "$mpirun" || true
  mpirun=''
}

judge() {  # ends with 1 if not all got an error in time, with 2 if none named the victim
  awk -v seed="$seed" -v fault="$fault, lent: $lends" -v survivors=$((ranks - 1)) \
    -v most=$((deadline + slack)) '
    /breaks at place/ { victim = $2; where = $0; sub(/.* breaks at /, "", where); sub(/: .*/, "", where) }
    /^the victim/ { began = $NF }
    /^survivor/ { ++said; named += $5 == victim; if ($NF > last) last = $NF }
    END {
      printf "seed %d: %s, rank %d of %d at %s: %d said so, %d named it, the last after %d ms\n",
        seed, fault, victim, survivors + 1, where, said, named, last - began
      if (said != survivors || last - began > most) exit 1
      if (!named) exit 2
    }' "$made/out"
}

seed=$first
while [ "$seed" -lt $((first + runs)) ]; do
  ranks=$((3 + seed % 2))
  fault='kill'
  [ $((seed / 2 % 2)) -eq 0 ] || fault='stop'
  lends='none'
  [ $((seed / 4 % 2)) -eq 0 ] || lends='all'
  export FSSDP_TEST_LENDS="$lends"
  break_step 500
  [ -n "$(victim)" ] || break_step 5000  # the machine was too slow for it to get there
  [ -n "$(victim)" ] || fail 'no process was killed or stopped'
  judged=0
  judge || judged=$?
  if [ $judged -ne 0 ] && [ "$deadline" -lt 5000 ]; then  # too slow to answer: taken for missing
    break_step 5000
    judged=0
    judge || judged=$?
  fi
  case $judged in
    0) ;;
    2) fail 'no process named the victim' ;;
    *) fail 'not all have said so in time' ;;
  esac
  seed=$((seed + 1))
done
