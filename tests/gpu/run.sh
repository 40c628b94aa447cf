#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the tests of the back ends on real devices: ranks that share one, over NCCL as
# processes, NCCL where there are six, kernels against loops, a layer of experts, a table of speeds,
# timelines of gathers beside matrix products.
# Needs a CUDA toolkit, NCCL, CMake 3.25, a C++20 compiler and the single header of Catch2, version 2
# (CATCH2_INCLUDE=FOLDER that has catch2/catch.hpp; CUDA_HOME, NCCL_HOME); for the tables of
# fssdp_perf the headers of CLI11, fmt and nlohmann_json (CMAKE_INCLUDE_PATH=FOLDER that has them).
# usage: run.sh [--build-only ARCHITECTURE] [BUILD_DIR]
# ends with 0: all has passed; 1: something has not; 77: some or all of it could not be run, and why
set -eu
here=$(cd "$(dirname "$0")" && pwd)
architecture=native
if [ "${1:-}" = --build-only ]; then
  architecture=${2:?usage: run.sh [--build-only ARCHITECTURE] [BUILD_DIR]}
  shift 2
fi
build=${1:-$here/../../build/gpu}

cannot() { echo "tests/gpu: NOT RUN: $*" >&2; exit 77; }
nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
[ -x "$nvcc" ] || cannot "no nvcc in PATH, CUDA_HOME or /usr/local/cuda"
command -v cmake >/dev/null || cannot "no cmake"
gpus=0
if command -v nvidia-smi >/dev/null; then
  gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
fi
[ "$gpus" -gt 0 ] || [ "$architecture" != native ] || cannot "no GPU (nvidia-smi names none)"

generator=$(command -v ninja >/dev/null && echo Ninja || echo 'Unix Makefiles')
cmake -S "$here" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES="$architecture" \
  ${CATCH2_INCLUDE:+-DCATCH2_INCLUDE="$CATCH2_INCLUDE"}
cmake --build "$build" --parallel "${JOBS:-$(nproc)}"
if [ "$architecture" != native ]; then
  echo "tests/gpu: built for sm_$architecture; nothing was run"
  exit 0
fi

failed=""
not_run=""
check() {  # check NAME COMMAND...
  name=$1
  shift
  echo "== $name"
  timeout "${TIMEOUT:-900}" "$@" || { echo "tests/gpu: FAILED: $name" >&2; failed="$failed $name;"; }
}
check "peer: 1 to 6 ranks share devices" "$build/gpu_peer" --warn NoTests
if [ "$gpus" -ge 6 ]; then
  check "nccl: a device for each rank" "$build/gpu_nccl" --warn NoTests
else
  echo "== nccl: NOT RUN: $gpus devices; its tests have up to 6 ranks, NCCL wants a device for each"
  not_run="$not_run NCCL;"
fi
for ranks in 2 4; do
  check "nccl: $ranks processes, on one device if there are no more" \
    sh "$here/nccl_processes.sh" "$ranks" "$build/gpu_nccl_process"
done
sanitizer=$(command -v compute-sanitizer || echo "$(dirname "$nvcc")/compute-sanitizer")
if [ -x "$sanitizer" ]; then
  for tests in "*on a device*" "*used again*"; do  # each by itself: a name that is gone is a failure
    check "compute-sanitizer: $tests" \
      "$sanitizer" --error-exitcode 1 "$build/gpu_peer" --warn NoTests "$tests"
  done
else
  echo "== compute-sanitizer: NOT RUN: there is none"
  not_run="$not_run compute-sanitizer;"
fi
check "a layer of experts: examples/08_cuda_layer" "$build/gpu_cuda_layer"
check "speeds" "$build/gpu_speed"
for copies in engines kernels; do
  check "overlap of gathers by $copies with matrix products" \
    "$build/gpu_overlap" --copies "$copies" --trace "$build/overlap_$copies.json"
done
perf() {  # perf BACK_END RANKS: prints a table, and asks nothing but that all elements are right
  check "fssdp_perf: $1, $2 ranks" \
    sh -c '"$@" | tee /dev/stderr | grep ": 0 wrong, 0 wrong in" >/dev/null' sh \
    "$build/gpu_fssdp_perf" --backend "$1" --ranks "$2" --case all --collective ag,rs \
    --bytes 1M,16M --baseline broadcast --check
}
if [ -x "$build/gpu_fssdp_perf" ]; then
  perf cuda 8
  perf nccl "$gpus"
else
  echo "== fssdp_perf: NOT RUN: no headers of CLI11, fmt and nlohmann_json"
  not_run="$not_run fssdp_perf;"
fi
[ -z "$failed" ] || { echo "tests/gpu: FAILED:$failed" >&2; exit 1; }
[ -z "$not_run" ] || { echo "tests/gpu: all that was run has passed; NOT RUN:$not_run" >&2; exit 77; }
echo "tests/gpu: all has passed"
