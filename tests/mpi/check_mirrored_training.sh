#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A training that is mirrored loses a process. Where this MPI has no ULFM, those that are left say how
# to go on from the last checkpoint, and that does. Ends with 77 where it may have.
# usage: check_mirrored_training.sh MOE_GPT FOLDER TEXT
set -eu
moe_gpt=${1:?usage: check_mirrored_training.sh MOE_GPT FOLDER TEXT}
folder=$2
text=$3
"${MPIRUN:-mpirun}" --version | grep -Eq '(Open MPI|OpenRTE)\) [0-4]\.' || {
  echo "skipped: this MPI may have ULFM, of which kill_a_process.sh tells"
  exit 77
}
rm -rf "$folder"
mkdir -p "$folder"
train() {  # train RANKS [OPTION...]
  count=$1
  shift
  "${MPIRUN:-mpirun}" --enable-recovery -np "$count" "$moe_gpt" --backend mpi --text "$text" \
    --experts 6 --layers 2 --d-model 16 --heads 2 --seq 16 --batch 6 --steps 8 --quiet \
    --deadline 3 "$@" </dev/null >"$folder/said" 2>&1
}
train 3 --mirror-every 1 --lose 1@6 --save "$folder/run" --save-every 2 || :
cat "$folder/said"
grep -q "from its last checkpoint.*the last checkpoint is that of step 4: --resume $folder/run" \
  "$folder/said"
train 2 --resume "$folder/run" --json "$folder/rest.json" || { cat "$folder/said"; exit 1; }
grep -q '"step": 8' "$folder/rest.json"
rm -rf "$folder"
