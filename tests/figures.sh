#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the commands of bench/figures.txt, and prints what guides claim beside what is measured here.
# It fails where an exact figure is another one, a guide does not say what is quoted, or a command
# prints no such figure. Times are printed only: those of the guides are of another machine. What
# needs a GPU is left out where there is none, and the last line says so.
# usage: figures.sh [-l] [TEXT]   -l: look at the guides alone, run nothing
#                                 TEXT: only commands that contain it
# The programs: cmake --workflow --preset bench
set -u
cd "$(dirname "$0")/.." || exit 1
is_run=yes
[ "${1:-}" = -l ] && { is_run=no; shift; }
wanted=${1:-}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0
figures=0
differ=0
left_out=0

fail() {
  echo "bench/figures.txt:$line: $1" >&2
  failed=1
}
is_wanted() {
  [ $is_run = yes ] && [ $can_run = yes ] || return 1
  case $command in
    *"$wanted"*) ;;
    *) return 1 ;;
  esac
}
run() {  # run COMMAND: its output is in $scratch/output
  command=$1
  needed=$needs
  needs=
  can_run=yes
  is_wanted || return
  printf '\n%s\n' "$command"
  if [ -n "$needed" ] && ! sh -c "$needed" >/dev/null 2>&1; then
    echo "  NOT RUN, as this fails: $needed"
    can_run=no
    left_out=$((left_out + 1))
    return
  fi
  sh -c "$command" >"$scratch/output" 2>&1 </dev/null || fail "this command fails: $command"
}
quote() {  # quote TEXT: the guide says it; figures in brackets are what follows is compared with
  text=$(echo "$1" | tr -d '[]')
  claims=$(echo "$1" | grep -oE '\[[^]]*\]' | tr -d '[],')
  grep -qF -- "$text" "$scratch/guide" || fail "$guide does not say: $text"
  ! is_wanted || printf '  %s: %s\n' "$guide" "$text"
}
compare() {  # compare KIND PATTERN: the next figure, beside what the command has printed
  figures=$((figures + 1))
  claimed=$(echo "$claims" | head -n 1)
  claims=$(echo "$claims" | tail -n +2)
  [ -n "$claimed" ] || { fail "expected one more figure in [brackets] in: $text"; return; }
  is_wanted || return
  found=$(sed -nE "s~^.*$2.*\$~\1~p" "$scratch/output")
  [ -n "$found" ] || { fail "the command does not print: $2"; return; }
  measured=$(echo "$found" | awk -v kind="$1" -v claimed="$claimed" '
    NR == 1 { value = least = most = $1 }
    { logarithms += log($1 > 0 ? $1 : 1); if ($1 < least) least = $1; if ($1 > most) most = $1 }
    END {
      if (kind == "mean") value = exp(logarithms / NR)
      if (kind == "least") value = least
      if (kind == "most") value = most
      sub(/^[^.]*/, "", claimed)  # as many digits as there, half of one rounded up
      digits = claimed == "" ? 0 : length(claimed) - 1
      printf "%.*f\n", digits, int(value * 10 ^ digits + 0.5 + 1e-9) / 10 ^ digits
    }')
  verdict=same
  if [ "$1" = about ]; then
    verdict=
  elif [ "$claimed" != "$measured" ]; then
    verdict=DIFFERS
    differ=$((differ + 1))
    failed=1
  fi
  printf '    %10s claimed %10s measured  %s\n' "$claimed" "$measured" "$verdict"
}

line=0
needs=
can_run=yes
while IFS= read -r entry; do
  line=$((line + 1))
  rest=${entry#* }
  case $entry in
    '' | '#'*) ;;
    'needs '*) needs=$rest ;;
    'run '*) run "$rest" ;;
    'in '*)
      guide=$rest  # in one line, without what only sets it in type
      tr '\n' ' ' <"$guide" | tr -d '*' | tr -s ' ' >"$scratch/guide"
      ;;
    'says '*) quote "$rest" ;;
    'exact '* | 'about '* | 'mean '* | 'least '* | 'most '*) compare "${entry%% *}" "$rest" ;;
    *) fail "expected needs, run, in, says, or how it is measured: $entry" ;;
  esac
done <bench/figures.txt
[ $figures -gt 0 ] || { echo "bench/figures.txt has no figures" >&2; failed=1; }
printf '\n%s figures, %s differ, %s commands not run\n' $figures $differ $left_out
exit $failed
