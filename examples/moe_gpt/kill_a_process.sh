#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures how long a training over MPI is delayed when one of its processes is killed: starts it,
# kills a random process (kill -9), and prints the time until the next step has finished; at the end
# the median and the worst of all runs. It needs an MPI with ULFM: Open MPI 5.
# usage: kill_a_process.sh MOE_GPT [--runs N] [--ranks N] [--hosts N] [OPTION...]
# OPTIONs are those of moe_gpt, including --mirror-every; by default a small model mirrors each of
# 300 steps. With --hosts, ranks are divided among emulated hosts with links of 1 Gbit/s
# (tests/multi_host/with_hosts.sh, which needs root). The environment variables MPIRUN and
# MPIRUN_OPTIONS set the launcher and its options; as root on a machine with few cores, for instance,
#   MPIRUN_OPTIONS="--with-ft ulfm --mca coll ^han --allow-run-as-root --map-by :OVERSUBSCRIBE"
set -u
usage="usage: kill_a_process.sh MOE_GPT [--runs N] [--ranks N] [--hosts N] [OPTION...]"
with_hosts=$(dirname "$0")/../../tests/multi_host/with_hosts.sh
moe_gpt=${1:?$usage}
shift
runs=5
ranks=6
hosts=
while [ $# -gt 0 ]; do
  case $1 in
    --runs) runs=${2:?$usage} && shift 2 ;;
    --ranks) ranks=${2:?$usage} && shift 2 ;;
    --hosts) hosts=${2:?$usage} && shift 2 ;;
    *) break ;;
  esac
done
for count in "--runs $runs" "--ranks $ranks" "--hosts ${hosts:-1}"; do
  case ${count#* } in
    *[!0-9]* | 0*) echo "kill_a_process.sh: $count: expected 1 or more" >&2; exit 1 ;;
  esac
done
[ -z "$hosts" ] || [ $((ranks % hosts)) -eq 0 ] || {
  echo "kill_a_process.sh: $ranks ranks on $hosts hosts; expected as many on each" >&2
  exit 1
}
[ $# -gt 0 ] || set -- --mirror-every 1 --steps 300 --experts 12 --layers 2 --d-model 64 --batch 12 \
  --deadline 20 --sample 0
pgrep -f . >/dev/null 2>&1 || { echo "kill_a_process.sh: no pgrep here, or no /proc" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mpirun_options=${MPIRUN_OPTIONS---with-ft ulfm --mca coll ^han}
# shellcheck disable=SC2086  # options are words
launch() {  # launch COMMAND...: on all ranks, in the place of this shell
  [ -n "$hosts" ] || exec "${MPIRUN:-mpirun}" $mpirun_options -np "$ranks" "$@"
  passed_on=
  for option in $mpirun_options; do passed_on="$passed_on --mpirun $option"; done
  exec sh "$with_hosts" --hosts "$hosts" --ranks $((ranks / hosts)) $passed_on "$@"
}
# A text as an expression that matches it alone.
literal() { printf %s "$1" | sed 's/[][\\.*^$+?(){}|]/\\&/g'; }
# What all processes have said so far: to files, as launchers give them a terminal.
said() { cat "$folder/said_$run".* 2>/dev/null; }
# await EXPRESSION: until a line matches; fails if the training has ended, or after a minute.
await() {
  tries=0
  until said | grep -q -- "$1"; do
    tries=$((tries + 1))
    kill -0 "$training" 2>/dev/null && [ "$tries" -lt 6000 ] || { said | grep -q -- "$1"; return; }
    sleep 0.01
  done
}
give_up() {
  echo "run $run: $1. It has said:"
  said | tail -n 30
  # shellcheck disable=SC2046
  kill -9 $(pgrep -f -- "$pattern") 2>/dev/null
  kill "$training" 2>/dev/null
  wait "$training" 2>/dev/null
  failed=$((failed + 1))
}

failed=0
run=0
while [ "$run" -lt "$runs" ]; do
  run=$((run + 1))
  json=$folder/run_$run.json
  pattern="^$(literal "$moe_gpt --backend mpi --json $json ")"
  # shellcheck disable=SC2016
  launch sh -c 'to=$1 && shift && exec "$@" >"$to.$$" 2>&1' sh "$folder/said_$run" \
    "$moe_gpt" --backend mpi --json "$json" "$@" </dev/null >"$folder/said_$run.launcher" 2>&1 &
  training=$!
  await '^ *1/[0-9]* .*loss' || { give_up "no step is done"; continue; }
  sleep "0.$(shuf -i 2-9 -n 1)"
  victim=$(pgrep -f -- "$pattern" | shuf -n 1)
  [ -n "$victim" ] || { give_up "there is no process to kill; expected --steps of more"; continue; }
  killed=$(date +%s.%N)
  kill -9 "$victim"
  await 'lost in step' || { give_up "no step is done after the kill"; continue; }
  seconds=$(awk -v from="$killed" -v to="$(date +%s.%N)" 'BEGIN { printf "%.3f", to - from }')
  echo "$seconds" >>"$folder/seconds"
  echo "run $run: $seconds s from the kill to the next step that is done:" \
    "$(said | grep -m 1 'lost in step')"
  await 'held-out loss' || { give_up "it has not come to its end"; continue; }
  ended=0
  while kill -0 "$training" 2>/dev/null && [ "$ended" -lt 300 ]; do
    ended=$((ended + 1))
    sleep 0.1
  done
  [ "$ended" -lt 300 ] || { give_up "it has done all steps, and does not end"; continue; }
  wait "$training" 2>/dev/null
done
[ -e "$folder/seconds" ] && sort -n "$folder/seconds" | awk '
  { all[NR] = $1 }
  END { printf "%d of the runs: median %.3f s, worst %.3f s\n", NR,
               (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2, all[NR] }'
[ "$failed" -eq 0 ] || { echo "$failed of $runs runs have failed"; exit 1; }
