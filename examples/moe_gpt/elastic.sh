#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Trains over MPI, and restarts when a rank is lost: the others end, and training continues from the
# last checkpoint with one rank fewer. Without a new checkpoint it stops, as it would fail again in
# the same way. Further options of mpirun come from its environment variables.
# usage: elastic.sh MOE_GPT FOLDER RANKS [OPTION...]
# Checkpoints are in FOLDER. OPTIONs are those of moe_gpt: --save-every limits how much can be lost.
set -u
usage="usage: elastic.sh MOE_GPT FOLDER RANKS [OPTION...]"
moe_gpt=${1:?$usage}
folder=${2:?$usage}
ranks=${3:?$usage}
shift 3

last_checkpoint() { ls -d "$folder"/step_*/checkpoint.json 2>/dev/null | LC_ALL=C sort | tail -n 1; }

at=$(last_checkpoint)
while :; do
  "${MPIRUN:-mpirun}" -np "$ranks" "$moe_gpt" --backend mpi --save "$folder" \
    ${at:+--resume "$folder"} "$@" && exit
  code=$?
  before=$at
  at=$(last_checkpoint)
  ranks=$((ranks - 1))
  [ "$ranks" -ge 1 ] && [ "$at" != "$before" ] || exit "$code"
  echo "elastic.sh: a rank is lost; $ranks go on from $at" >&2
done
