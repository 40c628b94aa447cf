#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Kills a rank in the middle of a training, and checks that it ends with the losses of one that is
# left alone.
# Ends with 77 where processes cannot be found.
# usage: check_elastic.sh PROJECT_DIR MOE_GPT FOLDER
set -eu
pgrep -f . >/dev/null 2>&1 || { echo "skipped: no pgrep here, or no /proc"; exit 77; }
project=${1:?usage: check_elastic.sh PROJECT_DIR MOE_GPT FOLDER}
moe_gpt=$2
folder=$3
rm -rf "$folder"
mkdir -p "$folder"
train() {  # train NAME RANKS
  sh "$project/examples/moe_gpt/elastic.sh" "$moe_gpt" "$folder/$1" "$2" --text "$project/LICENSE" \
    --experts 8 --layers 2 --d-model 32 --batch 8 --steps 120 --save-every 4 --quiet \
    --deadline 20 --json "$folder/$1.json"
}
# A text as an expression that matches it alone.
literal() { printf %s "$1" | sed 's/[][\\.*^$+?(){}|]/\\&/g'; }
last_loss() { grep -o '"loss": [0-9.]*' "$folder/$1.json" | tail -n 1 | cut -d' ' -f2; }

train alone 3
train killed 3 2>"$folder/said" &
training=$!
until [ -e "$folder/killed/step_00000008/checkpoint.json" ]; do
  kill -0 "$training" 2>/dev/null || { cat "$folder/said"; echo "it has ended"; exit 1; }
  sleep 0.05
done
victim=$(pgrep -f -- "^$(literal "$moe_gpt --backend mpi --save $folder/killed")" | tail -n 1)
kill -9 "$victim"
wait "$training" || { cat "$folder/said"; echo "it has not gone on"; exit 1; }
grep -q "a rank is lost; 2 go on from $folder/killed/step_" "$folder/said" ||
  { cat "$folder/said"; echo "no rank was lost"; exit 1; }
echo "loss $(last_loss alone) alone, $(last_loss killed) with a rank that was killed"
awk -v a="$(last_loss alone)" -v b="$(last_loss killed)" \
  'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-8 * a ^ 2) }'
rm -rf "$folder"
