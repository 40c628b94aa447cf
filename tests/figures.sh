#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the commands of bench/figures.txt, and prints what guides claim beside what is measured here.
# It fails where an exact figure is another one, a guide does not say what is quoted, or a command
# prints no such figure. Times are printed only: they are of another machine.
# usage: figures.sh [-l] [TEXT]   -l: look at the guides alone, run nothing
#                                 TEXT: only commands that contain it
# The programs: cmake --workflow --preset bench
set -u
cd "$(dirname "$0")/.." || exit 1
only_look=no
[ "${1:-}" = -l ] && { only_look=yes; shift; }
wanted=${1:-}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0
figures=0

fail() {
  echo "bench/figures.txt:$line: $1" >&2
  failed=1
}
# The text of a guide in one line, without what only sets it in type.
text_of() {
  tr '\n' ' ' <"$1" | tr -d '*' | tr -s ' '
}
run() {  # run COMMAND: its output is in $scratch/output
  case $command in
    *"$wanted"*) is_wanted=yes ;;
    *) is_wanted=no ;;
  esac
  [ $only_look = no ] && [ $is_wanted = yes ] || return
  printf '\n%s\n' "$command"
  sh -c "$command" >"$scratch/output" 2>&1 </dev/null || fail "this command fails: $command"
}
compare() {  # compare KIND PATTERN: what is claimed in $says, beside what the command printed
  figures=$((figures + 1))
  claimed=$(echo "$says" | sed -n 's/.*\[\(.*\)\].*/\1/p')
  quote=$(echo "$says" | tr -d '[]')
  [ -n "$claimed" ] || { fail "expected the figure in [brackets]: $says"; return; }
  text_of "$guide" | grep -qF -- "$quote" || fail "$guide does not say: $quote"
  [ $only_look = no ] && [ $is_wanted = yes ] || return
  measured=$(sed -nE "s~^.*$2.*\$~\1~p" "$scratch/output" | head -n 1)
  [ -n "$measured" ] || { fail "the command does not print: $2"; return; }
  verdict=$1
  if [ "$1" = exact ] && [ "$(echo "$claimed" | tr -d ,)" != "$measured" ]; then
    verdict=DIFFERS
    failed=1
  fi
  printf '  %-10s %-10s %-8s %s: %s\n' "$claimed" "$measured" "$verdict" "$guide" "$quote"
}

line=0
while IFS= read -r entry; do
  line=$((line + 1))
  rest=${entry#* }
  case $entry in
    '' | '#'*) ;;
    'run '*) command=$rest; run ;;
    'in '*) guide=$rest ;;
    'says '*) says=$rest ;;
    'exact '* | 'about '*) compare "${entry%% *}" "$rest" ;;
    *) fail "expected run, in, says, exact or about: $entry" ;;
  esac
done <bench/figures.txt
[ $figures -gt 0 ] || { echo "bench/figures.txt has no figures" >&2; failed=1; }
exit $failed
