#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the tests: sh tests/run.sh [--full]
#
# Without --full: all tests, then the library's under the address and undefined behaviour
# sanitizers, then those where threads meet under the thread sanitizer.
# With --full: all of them in all presets, with clang++ too where it is installed, and the
# benchmarks are built. Installs what it needs on Debian and Ubuntu where it may.
set -u
usage() { sed -n '3,8s/^# \{0,1\}//p' "$0"; }

full=no
for argument; do
  case $argument in
    --full) full=yes ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 1 ;;
  esac
done
cd -- "$(dirname -- "$0")/.." || exit 1

# shellcheck source=cmake/need_packages.sh
. cmake/need_packages.sh
need program g++ "${CXX:-c++}"
need cmake cmake cmake
need program ninja-build ninja
need header catch2 catch2/catch.hpp catch2/catch_test_macros.hpp
need header libcli11-dev CLI/CLI.hpp
need header nlohmann-json3-dev nlohmann/json.hpp
need header libfmt-dev fmt/format.h
need header libxxhash-dev xxhash.h
want header libopenblas-dev cblas.h openblas/cblas.h
want header libgloo-dev gloo/context.h
want header coinor-libcbc-dev coin/Cbc_C_Interface.h
want program libopenmpi-dev mpicxx
want program openmpi-bin mpirun
want program iproute2 ip
want program procps pgrep
[ $full = no ] || need header libbenchmark-dev benchmark/benchmark.h
get_packages

jobs=$(getconf _NPROCESSORS_ONLN)
begin=$(date +%s)
passed=0
failed=0
skipped=0

build() {  # build PRESET [TARGET]
  preset=$1
  log=build/$preset/build.log
  began=$(date +%s)
  mkdir -p "build/$preset"
  echo "== $preset: building..."
  # shellcheck disable=SC2086  # the prefix is a command and its arguments
  if ! { cmake --preset "$preset" &&
    $prefix cmake --build --preset "$preset" --parallel "$jobs" ${2:+--target "$2"}; } \
      >"$log" 2>&1; then
    cat "$log"
    echo "== $preset: does not build"
    failed=$((failed + 1))
    return 1
  fi
  echo "== $preset: built in $(($(date +%s) - began)) s"
}

tell_failures() {  # tell_failures PRESET LOG: what the tests that failed have said
  awk -v preset="$1" '
    /^ *(Start |[0-9]+\/[0-9]+ Test)/ || /tests passed,/ { told = 0 }
    /^ *[0-9]+\/[0-9]+ Test.*\*\*\*/ && !/\*\*\*Skipped/ { told = 1; print "== " preset }
    told' "$2"
}

check() {  # check PRESET [LABEL]: runs the tests of a preset, or those with the label, and counts
  log=build/$1/test.log
  # shellcheck disable=SC2086
  $prefix ctest --preset "$1" --parallel "$jobs" ${2:+-L "$2"} 2>&1 | tee "$log"
  tell_failures "$1" "$log" >>"$failures"
  closing=$(grep 'tests passed, .* failed out of' "$log")
  if [ -z "$closing" ]; then
    failed=$((failed + 1))
    return
  fi
  wrong=$(echo "$closing" | sed 's/.*passed, \([0-9]*\) tests\{0,1\} failed.*/\1/')
  total=$(echo "$closing" | sed 's/.*out of \([0-9]*\).*/\1/')
  left=$(grep -c '\*\*\*Skipped' "$log")  # which ctest counts as passed
  passed=$((passed + total - wrong - left))
  failed=$((failed + wrong))
  skipped=$((skipped + left))
}

# Older thread sanitizers do not start where the kernel spreads the addresses of a program wide.
find_prefix() {
  mkdir -p build/tsan
  echo 'int main() {}' >build/tsan/trial.cpp
  # shellcheck disable=SC2086  # CXX may hold options
  ${CXX:-c++} -fsanitize=thread build/tsan/trial.cpp -o build/tsan/trial || return
  if ! build/tsan/trial 2>/dev/null && setarch "$(uname -m)" -R build/tsan/trial 2>/dev/null; then
    prefix="setarch $(uname -m) -R"
  fi
}

prefix=''
failures=build/failures.log
mkdir -p build
: >"$failures"
build test && check test
if [ $full = yes ]; then
  build asan && check asan
  if command -v clang++ >/dev/null; then
    build clang && check clang
  fi
  build bench
  find_prefix
  build tsan && check tsan
else
  build asan library_tests && check asan library
  find_prefix
  build tsan thread_tests && check tsan threads
fi

cat "$failures"
echo "All of it took $(($(date +%s) - begin)) s."
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
