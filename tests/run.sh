#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the tests: sh tests/run.sh [--quick] [--programs] [--sanitizers] [--full] [--werror]
#
#   --quick       the default: the library over every back end for processors that is here, each law on
#                 300 random instances. 5 to 10 minutes on two cores.
#   --programs    these and all others in the same build: the trainer and the other examples, the
#                 benchmarks, several hosts, the Python package, all components as installed, and
#                 the back ends between GPUs on a double of CUDA and NCCL. 10 to 25 minutes.
#   --sanitizers  the library's tests under the address and undefined behaviour sanitizers, and
#                 those with several threads under the thread sanitizer, with few element types. By
#                 clang++, unless CXX is set. 10 to 20 minutes on two cores.
#   --full        all tests in all builds: optimized with 10,000 instances of each law, with clang++
#                 too if it is installed, under all sanitizers; each header compiled on its own; the
#                 benchmarks built. Warnings are errors. Takes hours.
#   --werror      compiler warnings are errors, as in continuous integration
#
# Several kinds run one after the other. Installs what it needs on Debian and Ubuntu, if it may.
set -u
usage() { sed -n '3,19s/^# \{0,1\}//p' "$0"; }

quick=no programs=no sanitizers=no full=no werror=no
for argument; do
  case $argument in
    --quick) quick=yes ;;
    --programs) programs=yes ;;
    --sanitizers) sanitizers=yes ;;
    --full) full=yes ;;
    --werror) werror=yes ;;
    --help | -h) usage; exit 0 ;;
    *) echo "run.sh: unknown argument '$argument'" >&2; usage >&2; exit 1 ;;
  esac
done
[ $programs$sanitizers$full = nonono ] && quick=yes
cd -- "$(dirname -- "$0")/.." || exit 1

# shellcheck source=cmake/progress.sh
. cmake/progress.sh
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
want header libopenblas-dev openblas-pthread/openblas_config.h openblas_config.h \
  openblas/openblas_config.h blis/blis.h blis.h mkl_cblas.h mkl/mkl_cblas.h
want header libgloo-dev gloo/context.h
want header libtorch-dev torch/csrc/distributed/c10d/ProcessGroup.hpp
want header coinor-libcbc-dev coin/Cbc_C_Interface.h
want program libopenmpi-dev mpicxx
want program openmpi-bin mpirun
want program iproute2 ip
want program procps pgrep
[ $full = no ] || need header libbenchmark-dev benchmark/benchmark.h
if [ $sanitizers = yes ] && [ -z "${CXX:-}" ]; then
  want program clang clang++
  want sanitizer libclang-rt-dev clang++
fi
get_packages

jobs=$(getconf _NPROCESSORS_ONLN)
begin=$(now)
passed=0
failed=0
skipped=0
prefix=''

folder_of() {  # folder_of PRESET: quick is a part of what test builds
  case $1 in quick) echo build/test ;; *) echo "build/$1" ;; esac
}

build() {  # build PRESET [CMAKE-ARGUMENT...]
  preset=$1
  folder=$(folder_of "$1")
  shift
  mkdir -p "$folder"
  build_began=$(now)
  echo "== $preset: configuring"
  if ! cmake --preset "${folder#build/}" "$@" >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log"
    echo "== $preset: cannot be configured"
    failed=$((failed + 1))
    return 1
  fi
  # shellcheck disable=SC2086  # the prefix is a command and its arguments
  if ! with_progress build "== $preset: building" "$folder/build.log" \
    $prefix cmake --build --preset "$preset" --parallel "$jobs"; then
    echo "== $preset: does not build; everything that was printed: $folder/build.log"
    failed=$((failed + 1))
    return 1
  fi
  echo "== $preset: built in $(duration $(($(now) - build_began)))"
}

check() {  # check PRESET: runs the tests of a preset and counts
  folder=$(folder_of "$1")
  log=$folder/test.log
  check_began=$(now)
  # shellcheck disable=SC2086
  with_progress tests "== $1: testing" "$log" \
    $prefix ctest --preset "$1" --parallel "$jobs"
  closing=$(grep 'tests passed, .* failed out of' "$log")
  if [ -z "$closing" ]; then
    tail -n 20 "$log"
    failed=$((failed + 1))
    return
  fi
  wrong=$(echo "$closing" | sed 's/.*passed, \([0-9]*\) tests\{0,1\} failed.*/\1/')
  total=$(echo "$closing" | sed 's/.*out of \([0-9]*\).*/\1/')
  left=$(grep -c '\*\*\*Skipped' "$log")  # which ctest counts as passed
  passed=$((passed + total - wrong - left))
  failed=$((failed + wrong))
  skipped=$((skipped + left))
  echo "== $1: $((total - wrong - left)) of $total tests passed, $wrong failed, $left skipped" \
    "in $(duration $(($(now) - check_began)))"
  sed -n 's/^.*Test *#[0-9]*: \(.*[^ .]\) *\.*\*\*\*Skipped.*/   skipped: \1/p' "$log"
  sed -n 's/^this test is skipped: /   because /p' "$folder/Testing/Temporary/LastTest.log" | sort -u
  sed -n 's/^.*Test *#[0-9]*: \(.*[^ .]\) *\.*\*\*\*\([A-Z].*\)/   failed: \1 (\2)/p' "$log" |
    grep -v Skipped
}

# Older thread sanitizers do not start where the kernel spreads the addresses of a program wide.
find_prefix() {  # find_prefix COMPILER
  mkdir -p build
  echo 'int main() {}' >build/trial.cpp
  # shellcheck disable=SC2086  # CXX may hold options
  $1 -fsanitize=thread build/trial.cpp -o build/trial || return
  if ! build/trial 2>/dev/null && setarch "$(uname -m)" -R build/trial 2>/dev/null; then
    prefix="setarch $(uname -m) -R"
  fi
}

strict=-DCMAKE_COMPILE_WARNING_AS_ERROR=$werror
if [ $programs = yes ]; then
  build test $strict && check test
elif [ $quick = yes ]; then
  build quick $strict && check quick
fi
if [ $full = yes ]; then
  strict=-DCMAKE_COMPILE_WARNING_AS_ERROR=yes
  build full && check full
  build asan $strict && check asan
  if command -v clang++ >/dev/null; then
    build clang && check clang
  fi
  build bench
  find_prefix "${CXX:-c++}"
  build tsan $strict && check tsan
elif [ $sanitizers = yes ]; then
  compiler=${CXX:-c++}
  # Clang builds these tests in a third of the time that g++ takes.
  if [ -z "${CXX:-}" ] && is_there sanitizer clang++; then compiler=clang++; fi
  export CXX="$compiler"
  build quick_asan $strict && check quick_asan
  find_prefix "$compiler"
  build quick_tsan $strict && check quick_tsan
fi

echo "All of it took $(duration $(($(now) - begin)))."
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
