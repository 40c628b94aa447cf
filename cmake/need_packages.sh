# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# For the run.sh scripts: looks for what a build needs and installs what is missing, where it may.
# Needs progress.sh.
#
#   need  KIND PACKAGE NAME...   the script cannot do without
#   want  KIND PACKAGE NAME...   the script can do without
#   get_packages                 installs what is missing, or says what it is and exits 1
#
# KIND is program, header, cmake (the program in a version that is new enough) or sanitizer (a compiler
# that has the thread sanitizer); one of the NAMEs is enough. Things are looked for themselves, not by
# package: how they came here does not matter.

needed=''
wanted=''
need() { needed="$needed$*
"; }
want() { wanted="$wanted$*
"; }

is_there() {  # is_there KIND NAME
  case $1 in
    program) command -v "$2" >/dev/null ;;
    header)
      # shellcheck disable=SC2086  # CXX may hold options
      printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$2" | ${CXX:-c++} -E -x c++ - ;;
    sanitizer) echo 'int main() {}' | "$2" -fsanitize=thread -x c++ - -o /dev/null ;;
    cmake)
      cmake --version |
        awk 'NR == 1 { split($3, v, "."); new = v[1] > 3 || (v[1] == 3 && v[2] >= 25) }
             END { exit !new }' ;;
  esac >/dev/null 2>&1
}

lacking() {  # lacking LIST: the packages of the list whose things are not there
  echo "$1" | while read -r kind package names; do
    [ -n "$kind" ] || continue
    found=no
    for name in $names; do
      if is_there "$kind" "$name"; then found=yes; fi
    done
    [ $found = yes ] || printf '%s ' "$package"
  done
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

apt_get() {  # apt_get TEXT ARGUMENT...: shows how far it is; all that it prints only if it fails
  text=$1
  shift
  said=$(mktemp)
  with_progress packages "$text" "$said" \
    as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -o DPkg::Lock::Timeout=120 -o APT::Status-Fd=1 "$@"
  outcome=$?
  [ $outcome -eq 0 ] || cat "$said" >&2
  rm -f "$said"
  return $outcome
}

apt_install() {  # apt_install PACKAGE...
  [ $# -gt 0 ] && apt_get "Packages: installing $*" install -y --no-install-recommends "$@"
}

get_packages() {
  echo 'Packages: looking for what the build needs'
  must=$(lacking "$needed")
  may=$(lacking "$wanted")
  [ -n "$must$may" ] || return 0
  if command -v apt-get >/dev/null && as_root true 2>/dev/null; then
    apt_get 'Packages: reading the lists' update || true
    # shellcheck disable=SC2086  # lists of names
    apt_install $must $may || apt_install $must || true
    must=$(lacking "$needed")
    may=$(lacking "$wanted")
  fi
  if [ -n "$must" ]; then
    echo "These packages are missing: ${must% }"
    echo "Install them with: apt-get install ${must% }"
    case $must in *cmake*) echo "CMake must be 3.25 or newer." ;; esac
    exit 1
  fi >&2
  [ -z "$may" ] || echo "Going without ${may% }."
}
