#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Trains in 4 groups with one method after the other. Prints for each the held-out loss, also over
# that of full gradients, and the bytes that groups send in a step. The last row is one group alone,
# on its quarter of the batch: the cost of exchanging nothing.
# usage: compare_methods.sh MOE_GPT [--only "METHOD ..."] [--records FOLDER] [--sources COMMIT]
#                           [OPTION...]
# METHOD is as in the first column: --only "full demo:4 alone"; powersgd:16-start-90 and
# diloco-10-mu-0.3 are trained only if they are named. FOLDER gets the record of each
# training, as moe_gpt's --json writes it. The text is the sources of this COMMIT in place of those
# that are here, so that losses can be compared with those of other days. OPTIONs are those of
# moe_gpt, for all trainings.
set -eu
usage="usage: compare_methods.sh MOE_GPT [--only 'METHOD ...'] [--records FOLDER] [--sources COMMIT]
                          [OPTION...]"
moe_gpt=${1:?$usage}
shift
only='' records='' sources=''
while :; do
  case ${1:-} in
    --only) only=${2:?$usage} ;;
    --records) records=${2:?$usage} ;;
    --sources) sources=${2:?$usage} ;;
    *) break ;;
  esac
  shift 2
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -n "$sources" ]; then  # the same files in the same order as without --text
  root=$(git -C "$(dirname -- "$0")" rev-parse --show-toplevel)
  git -C "$root" archive --output "$work/sources.tar" "$sources" include examples tests
  mkdir "$work/sources"
  tar -xf "$work/sources.tar" -C "$work/sources"
  (cd "$work/sources" && find include examples tests -name '*.[hc]pp' -type f -o -name '*.md' -type f |
    LC_ALL=C sort | tr '\n' '\0' | xargs -0 cat) >"$work/text"
  set -- --text "$work/text" "$@"
fi

batch=32
for argument; do  # all but --batch go back to the end of the list
  shift
  case ${last:-} in
    --batch) batch=$argument ;;
    *) [ "$argument" = --batch ] || set -- "$@" "$argument" ;;
  esac
  last=$argument
done

full=''
row() {  # row METHOD OPTION...: trains, and prints a line
  method=$1
  shift
  case " ${only:-$method} " in *" $method "*) ;; *) return 0 ;; esac
  [ -z "$records" ] || set -- "$@" --json "$records/$method.json"
  if ! "$moe_gpt" --sample 0 "$@" >"$work/out" 2>"$work/err"; then
    cat "$work/err" >&2
    return 1
  fi
  loss=$(awk '/held-out loss/ { print $3 }' "$work/out")
  bytes=$(awk '/between groups/ { print $3, $4 }' "$work/out")
  speed=$(awk '/tokens per second/ { print $4 }' "$work/out")
  [ "$method" = full ] && full=$loss
  awk -v method="$method" -v loss="$loss" -v full="${full:-}" -v bytes="${bytes:--}" -v speed="$speed" \
    'BEGIN {
      apart = full == "" ? "-" : sprintf("%+.1f %%", 100 * (loss / full - 1))
      printf "%-22s  %13s  %9s  %16s  %12s\n", method, loss, apart, bytes, speed
    }'
}
in_groups() {  # in_groups METHOD OPTION...
  name=$1
  shift
  row "$name" --ranks 4 --groups 4 --batch "$batch" "$@"
}
on_request() {  # the same, only if --only names it
  case " $only " in *" $1 "*) in_groups "$@" ;; esac
}

printf '%-22s  %13s  %9s  %16s  %12s\n' method 'held-out loss' 'over full' 'bytes per step' 'tokens/s'
in_groups full "$@"
for method in bf16 int8 qsdp:8 qsdp-shift:8 terngrad tagc:20 powersgd:4 powersgd:16 demo:4 demo-2d:32 \
  striding:16 random:16; do
  in_groups "$method" --between "$method" "$@"
done
on_request powersgd:16-start-90 --between powersgd:16 --between-start 90 "$@"
in_groups powersgd:4-adapted --between powersgd:4 --adapt-every 20 "$@"
in_groups local-4 --sync-every 4 "$@"
in_groups local-8 --sync-every 8 "$@"
in_groups local-16 --sync-every 16 "$@"
in_groups qsr-4 --sync-every 4 --sync-alpha 0.006 "$@"
in_groups diloco-10 --sync-every 10 --outer diloco --outer-momentum 0.5 "$@"
in_groups diloco-10-int8 --sync-every 10 --outer diloco --outer-momentum 0.5 --between int8 "$@"
on_request diloco-10-mu-0.3 --sync-every 10 --outer diloco --outer-momentum 0.3 "$@"
in_groups diloco-10-mu-0.9 --sync-every 10 --outer diloco "$@"
in_groups streaming-12 --sync-every 12 --outer diloco --outer-momentum 0.5 --fragments 2 --sync-delay 2 \
  --sync-mix 0.5 "$@"
in_groups co2-12 --sync-every 12 --outer co2 "$@"
case " ${only:-alone} " in
  *" alone "*) row alone "$@" --ranks 1 --batch $((batch / 4)) ;;
esac
