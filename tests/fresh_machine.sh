#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tries examples/run.sh and tests/run.sh in an empty Debian; needs root and debootstrap.
#
# sh tests/fresh_machine.sh [--suite NAME] [--command train|test] [--mirror URL] [--cache DIR]
#                           [--bare] [--keep]
#   --suite    bookworm (Debian 12) or trixie (Debian 13); both by default
#   --command  train (examples/run.sh) or test (tests/run.sh); both by default
#   --mirror   the Debian mirror; by default that of this machine's apt
#   --cache    a folder that keeps the base system's packages for the next time
#   --bare     without /proc, /sys and shared memory, as in some containers
#   --keep     keep the systems afterwards, to inspect them
set -eu
usage() { sed -n '5,12s/^# \{0,1\}//p' "$0"; }

suites='bookworm trixie'
commands='train test'
mirror=''
cache=''
bare=no
keep=no
while [ $# -gt 0 ]; do
  case $1 in
    --suite) suites=$2; shift ;;
    --command) commands=$2; shift ;;
    --mirror) mirror=$2; shift ;;
    --cache) mkdir -p "$2"; cache=$(cd "$2" && pwd); shift ;;
    --bare) bare=yes ;;
    --keep) keep=yes ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 1 ;;
  esac
  shift
done
case $commands in train | test | 'train test') ;; *) usage >&2; exit 1 ;; esac

[ "$(id -u)" -eq 0 ] || { echo "fresh_machine.sh must run as root." >&2; exit 1; }
for program in debootstrap unshare git tar; do
  command -v $program >/dev/null || { echo "$program is missing." >&2; exit 1; }
done
if [ -z "$mirror" ]; then
  # shellcheck disable=SC2016  # apt-get expands
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(COMPONENT) $(REPO_URI)' \
    'Created-By: Packages' | sed -n 's/^Debian Debian main //p' | head -n 1)
  [ -n "$mirror" ] || { echo "apt has no Debian mirror here; name one: --mirror" >&2; exit 1; }
fi
source_dir=$(cd -- "$(dirname -- "$0")/.." && pwd)

# Mounts live in the namespace of each command and end with it; only files are left to remove.
place=$(mktemp -d "${TMPDIR:-/tmp}/fresh_machine.XXXXXX")
# shellcheck disable=SC2317  # the trap calls it
clean_up() {
  [ "$keep" = yes ] || rm -rf --one-file-system "$place"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

make_system() {  # make_system SUITE: an empty system, set up to reach the net as this machine does
  system=$place/$1
  set -- --variant=minbase "$1" "$system" "$mirror"
  case $mirror in https:*) set -- --include=ca-certificates "$@" ;; esac
  if [ -n "$cache" ]; then set -- --cache-dir="$cache" "$@"; fi
  debootstrap "$@" >"$system.log" 2>&1 || { tail -n 30 "$system.log" >&2; return 1; }
  apt-config dump | grep -Ei '^Acquire::(https?::proxy|retries|check-(valid-until|date)) ' \
    >"$system/etc/apt/apt.conf.d/90fresh" || true
  for file in /etc/hosts /etc/resolv.conf; do
    [ ! -e $file ] || cp -L $file "$system$file"
  done
}

copy_tree() {  # copy_tree SYSTEM: the files of the working tree, committed or not
  mkdir -p "$1/fssdp"
  (cd "$source_dir" && git ls-files --cached --others --exclude-standard |
    while IFS= read -r file; do [ ! -e "$file" ] || printf '%s\n' "$file"; done |
    tar -c -T -) | tar -x -C "$1/fssdp"
}

run_inside() {  # run_inside SYSTEM COMMAND...
  # shellcheck disable=SC2016  # the inner shell expands
  unshare --mount --pid --fork --kill-child sh -c '
    mount --rbind /dev "$1/dev" || exit 1
    if [ "$2" = no ]; then
      mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" &&
        mkdir -p "$1/dev/shm" && mount -t tmpfs tmpfs "$1/dev/shm" || exit 1
    else
      mount -t tmpfs -o ro tmpfs "$1/dev/shm" 2>/dev/null
    fi
    system=$1
    shift 3
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
      chroot "$system" sh -c "cd /fssdp && exec \"\$@\"" sh "$@"
  ' sh "$1" $bare "$@"
}

summary=''
result=0
for suite in $suites; do
  for command in $commands; do
    echo "== $suite: an empty system for $command"
    make_system "$suite"
    copy_tree "$place/$suite"
    case $command in
      train) set -- sh examples/run.sh --steps 3 --quiet ;;
      test) set -- sh tests/run.sh --programs ;;
    esac
    echo "== $suite: $*"
    began=$(date +%s)
    if run_inside "$place/$suite" "$@"; then outcome=ok; else outcome=FAILED; result=1; fi
    summary="$summary
$suite: $*: $outcome after $(($(date +%s) - began)) s"
    if [ "$keep" = yes ]; then
      mv "$place/$suite" "$place/$suite-$command"
      echo "== $suite: kept in $place/$suite-$command"
    else
      rm -rf --one-file-system "${place:?}/$suite"
    fi
  done
done
echo "$summary"
exit $result
