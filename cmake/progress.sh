# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# For the run.sh scripts: runs a command and shows how far it is, in place on a terminal, as a line
# every 15 seconds in a log.
#
#   with_progress READER NAME FILE COMMAND...
#
# READER is packages (reads apt-get's status lines), build (ninja's output) or tests (ctest's).
# What the command prints goes to FILE; what failed is shown at once. The exit status is the command's.

with_progress() {
  reader=$1 name=$2 log=$3
  shift 3
  : >"$log"
  {
    status=$({ { if "$@" 2>&1 3>&- 4>&-; then echo 0 >&3; else echo $? >&3; fi; } | "read_$reader" >&4; } 3>&1)
  } 4>&1
  return "$status"
}

now() { date +%s; }

duration() {  # duration SECONDS: "45 s" or "3 min 20 s"
  if [ "$1" -lt 120 ]; then echo "$1 s"; else echo "$(($1 / 60)) min $(($1 % 60)) s"; fi
}

if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then in_place=yes; else in_place=no; fi
columns=$( (stty size </dev/tty) 2>/dev/null | cut -d ' ' -f 2)
columns=${columns:-80}

begin_progress() {
  began=$(now)
  last=$began
  progress "$1"
  [ $in_place = yes ] || echo "$1"
}
progress() {  # progress TEXT: replaces the progress line on a terminal
  if [ $in_place = yes ]; then
    printf '\r\033[K%.*s' $((columns - 1)) "$1"
  elif [ $(($(now) - last)) -ge 15 ]; then
    echo "$1"
    last=$(now)
  fi
}
lasting() {  # lasting TEXT: a line that stays
  end_progress
  printf '%s\n' "$1"
}
end_progress() { [ $in_place = no ] || printf '\r\033[K'; }

count_of() {  # count_of DONE ALL: "DONE of ALL, about ... left"
  spent=$(($(now) - began))
  if [ "$1" -gt 0 ] && [ $spent -ge 3 ]; then
    echo "$1 of $2, about $(duration $((spent * ($2 - $1) / $1))) left"
  else
    echo "$1 of $2"
  fi
}

read_packages() {
  begin_progress "$name"
  while IFS= read -r line; do
    rest=${line#*:*:}
    case $line in
      dlstatus:*) progress "$name: ${rest%%[.:]*} % downloaded" ;;
      pmstatus:*) progress "$name: ${rest%%[.:]*} % installed" ;;
      *) printf '%s\n' "$line" >>"$log" ;;
    esac
  done
  end_progress
}

read_build() {
  begin_progress "$name"
  failing=no
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    case $line in
      '['[0-9]*/[0-9]*']'*)
        failing=no
        count=${line#\[}
        count=${count%%\]*}
        progress "$name: $(count_of "${count%/*}" "${count#*/}")"
        ;;
      'FAILED: '*) failing=yes ;;
    esac
    [ $failing = no ] || lasting "$line"
  done
  end_progress
}

read_tests() {
  begin_progress "$name"
  failing=no
  failures=''
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    case $line in
      *[0-9]/[0-9]*' Test '*'#'*': '*)
        failing=no
        case $line in
          *'***Skipped'*) ;;
          *'***'*)
            failing=yes
            failures=${failures}x
            ;;
        esac
        count=${line%% Test *}
        count=${count##* }
        text="$name: $(count_of "${count%/*}" "${count#*/}")"
        [ -z "$failures" ] || text="$text, ${#failures} failed"
        progress "$text"
        ;;
      *' tests passed, '* | *'Start '*[0-9]': '*) failing=no ;;
    esac
    [ $failing = no ] || lasting "$line"
  done
  end_progress
}
