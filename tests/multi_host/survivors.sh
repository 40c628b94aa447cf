#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A host is cut off, or a rank is killed, in the middle of a training: every other rank ends with an
# error that names it. sh tests/multi_host/survivors.sh cut|kill MOE_GPT TEXT
set -eu
fault=$1 moe_gpt=$2 text=$3
here=$(cd -- "$(dirname -- "$0")" && pwd)
made=$(mktemp -d "${TMPDIR:-/tmp}/survivors.XXXXXX")
trap 'rm -rf "$made"' EXIT
trap 'exit 1' HUP INT TERM

case $fault in
  cut) option='--cut 2' lost='[45]' others='0 1 2 3 6 7' ;;
  kill) option='--kill 5' lost=5 others='0 1 2 3 4 6 7' ;;
esac
code=0
# shellcheck disable=SC2086  # an option and its argument
timeout -k 5 120 sh "$here/with_hosts.sh" $option --when "$made/out" --mpirun --tag-output \
  "$moe_gpt" --backend mpi --text "$text" --steps 1000000 --layers 2 --d-model 32 --deadline 4 \
  >"$made/out" 2>"$made/err" || code=$?
if [ $code -eq 77 ]; then cat "$made/out"; exit 77; fi
[ $code -ne 124 ] || echo 'some rank has not ended'

wrong=0
for rank in $others; do
  line=$(grep "^\\[1,$rank\\]<stderr>:moe_gpt: " "$made/err" || true)
  echo "${line:-rank $rank says nothing}"
  echo "$line" | grep -qE "(no sign of rank $lost within|rank $lost has (failed|left))" || {
    echo "rank $rank should have named rank $lost"
    wrong=1
  }
done
[ $wrong -eq 0 ] || { tail -n 20 "$made/out"; cat "$made/err"; }
exit $wrong
