#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A training has the same losses, to the last bit, and moves as much, whether its ranks are threads
# or processes: sh same_losses.sh RANKS NODES MOE_GPT TEXT LAUNCHER [ARGUMENTS OF IT]
set -eu
ranks=$1 nodes=$2 moe_gpt=$3 text=$4
shift 4
made=$(mktemp -d "${TMPDIR:-/tmp}/losses.XXXXXX")
trap 'rm -rf "$made"' EXIT
trap 'exit 1' HUP INT TERM

train() { "$@" --text "$text" --steps 4 --layers 2 --d-model 32 --quiet; }
figures() { grep -E '"(loss|heldout_loss|ranks|nodes|gathered_bytes|reduced_bytes)"' "$1"; }

for mode in '' '--no-overlap' '--rematerialize --wire bf16' '--mode ep' '--offload all'; do
  # shellcheck disable=SC2086  # options and their arguments
  train "$moe_gpt" --ranks "$ranks" --nodes "$nodes" $mode --json "$made/threads"
  # shellcheck disable=SC2086
  train "$@" "$moe_gpt" --backend mpi $mode --json "$made/processes"
  figures "$made/threads" >"$made/a"
  figures "$made/processes" >"$made/b"
  [ "$(grep -c '"loss"' "$made/a")" -eq 4 ] || { echo 'no losses'; exit 1; }
  diff "$made/a" "$made/b" || { echo "threads and processes differ with ${mode:-no options}"; exit 1; }
  echo "${mode:-as it is}: the same"
done
