#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the tests of the back ends on real devices: ranks that share one, over NCCL as
# processes, NCCL where there are six, kernels against loops, a layer of experts, a table of speeds,
# timelines of gathers beside matrix products, whole iterations, process groups of PyTorch.
# Needs a CUDA toolkit with cuBLAS, NCCL, CMake 3.25 and a C++20 compiler (CUDA_HOME; NCCL_HOME, else
# the NCCL of Python's package nvidia.nccl if there is one, else where CMake looks); for the suites of
# tests the single header of Catch2, version 2 (CATCH2_INCLUDE=FOLDER that has catch2/catch.hpp), for
# fssdp_perf and fssdp_step the headers of CLI11, fmt and nlohmann_json (CMAKE_INCLUDE_PATH=FOLDER that
# has them). It prints what cannot run, and what is missing for that.
# A check may take TIMEOUT seconds (180). --built runs what was built elsewhere by --build-only; set
# LD_LIBRARY_PATH if the libraries of CUDA and NCCL are in another place.
# usage: run.sh [--build-only ARCHITECTURE | --built] [BUILD_DIR]
# exit status 0: all has passed; 1: something failed; 77: something could not run; it prints why
set -eu
here=$(cd "$(dirname "$0")" && pwd)
architecture=native
builds=yes
case "${1:-}" in
  --build-only)
    architecture=${2:?usage: run.sh [--build-only ARCHITECTURE | --built] [BUILD_DIR]}
    shift 2 ;;
  --built)
    builds=no
    shift ;;
esac
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

: "${NCCL_HOME:=$(python3 -c 'import nvidia.nccl; print(nvidia.nccl.__path__[0])' 2>/dev/null || true)}"
[ -z "$NCCL_HOME" ] || export NCCL_HOME

if [ "$builds" = yes ]; then
  generator=$(command -v ninja >/dev/null && echo Ninja || echo 'Unix Makefiles')
  cmake -S "$here" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES="$architecture" \
    ${CATCH2_INCLUDE:+-DCATCH2_INCLUDE="$CATCH2_INCLUDE"}
  cmake --build "$build" --parallel "${JOBS:-$(nproc)}"
fi
if [ "$architecture" != native ]; then
  echo "tests/gpu: built for sm_$architecture; nothing was run"
  exit 0
fi

# Streams of more ranks than this share a queue of a device, and wait for each other.
export CUDA_DEVICE_MAX_CONNECTIONS=32

failed=""
not_run=""
check() {  # check NAME COMMAND...: prints what it says as it says it, and times nothing but this
  name=$1
  shift
  echo "== $name"
  timeout "${TIMEOUT:-180}" "$@" || { echo "tests/gpu: FAILED: $name" >&2; failed="$failed $name;"; }
}
leave_out() {  # leave_out NAME WHY
  echo "== $1: NOT RUN: $2"
  not_run="$not_run $1;"
}
built() {  # built PROGRAM NAME WHY: whether it could be built
  [ -x "$build/$1" ] || { leave_out "$2" "$3"; return 1; }
}
perf() {  # perf BACK_END RANKS: prints a table, and asks nothing but that all elements are right
  check "fssdp_perf: $1, $2 ranks" \
    sh -c 'table=$("$@") && echo "$table" && echo "$table" | grep -q ": 0 wrong, 0 wrong in"' sh \
    "$build/gpu_fssdp_perf" --backend "$1" --ranks "$2" --case all --collective ag,rs \
    --bytes 1M,16M --baseline broadcast --check
}
step() {  # step BACK_END RANKS: whole iterations of every policy, whose bytes are right
  check "fssdp_step: $1, $2 ranks" "$build/gpu_fssdp_step" --backend "$1" --devices "$2" \
    --layers 4 --iterations 5 --timeline "$build/step_$1.json"
}

# What tells times has the device for itself; the rest runs side by side.
check "speeds" "$build/gpu_speed"
if built gpu_overlap "a layer of experts, overlap" "no cuBLAS in CUDA's toolkit"; then
  check "a layer of experts: examples/08_cuda_layer" "$build/gpu_cuda_layer"
  for copies in "engines" "kernels" "kernels --blocks 8"; do
    check "overlap of gathers by $copies with matrix products" \
      "$build/gpu_overlap" --copies $copies --trace "$build/overlap_${copies%% *}.json"
  done
fi
if built gpu_fssdp_perf fssdp_perf "no headers of CLI11, fmt and nlohmann_json"; then
  perf cuda 8
  [ ! -x "$build/gpu_nccl_process" ] || perf nccl "$gpus"
fi
if built gpu_fssdp_step fssdp_step "no cuBLAS, or no headers of CLI11, fmt and nlohmann_json"; then
  step cuda 8
  [ ! -x "$build/gpu_nccl_process" ] || step nccl "$gpus"
fi

beside=$(mktemp -d)
trap 'rm -rf "$beside"' EXIT
count=0
begin() {  # begin NAME COMMAND...: as check, beside others; `finish` tells what it has said
  count=$((count + 1))
  echo "$1" >"$beside/$count.name"
  shift
  (
    code=0
    timeout "${TIMEOUT:-180}" "$@" >"$beside/$count.out" 2>&1 || code=$?
    echo "$code" >"$beside/$count.code"
  ) &
}
finish() {  # waits for all that have begun
  wait
  for number in $(seq "$count"); do
    name=$(cat "$beside/$number.name")
    echo "== $name"
    cat "$beside/$number.out"
    [ "$(cat "$beside/$number.code")" -eq 0 ] ||
      { echo "tests/gpu: FAILED: $name" >&2; failed="$failed $name;"; }
  done
  count=0
}

if built gpu_peer "tests of devices of a process" "no catch2/catch.hpp (CATCH2_INCLUDE)"; then
  begin "peer: 1 to 6 ranks share devices" "$build/gpu_peer" --warn NoTests
fi
sanitizer=$(command -v compute-sanitizer || echo "$(dirname "$nvcc")/compute-sanitizer")
if [ ! -x "$build/gpu_peer" ] || [ ! -x "$sanitizer" ]; then
  leave_out compute-sanitizer "there is none, or no suite of tests"
elif "$sanitizer" "$build/gpu_peer" --list-tests 2>&1 | grep -q 'Device not supported'; then
  leave_out compute-sanitizer "it does not support this device"
else
  for tests in "*on a device*" "*used again*"; do  # each by itself: a name that is gone is a failure
    begin "compute-sanitizer: $tests" "$sanitizer" --error-exitcode 1 --report-api-errors no \
      "$build/gpu_peer" --warn NoTests "$tests"  # to ask what is not ready is no error
  done
fi
finish

# Processes that share a device: with more than about ten it has no memory for the next one's context.
processes() {  # processes NAME RANKS PROGRAM [ARGUMENT]...
  name="$1, $2 processes"
  shift
  begin "$name" sh "$here/nccl_processes.sh" "$@"
}
if built gpu_nccl_process NCCL "no nccl.h or libnccl (NCCL_HOME)"; then
  for ranks in 2 4; do
    processes "nccl: placements, graphs, lost ranks" "$ranks" "$build/gpu_nccl_process"
  done
  finish
  if built gpu_nccl_contract "the contract over NCCL" "no catch2/catch.hpp (CATCH2_INCLUDE)"; then
    for ranks in 2 4; do
      processes "nccl: the contract and the laws" "$ranks" "$build/gpu_nccl_contract" \
        --durations yes
    done
    finish
  fi
  if [ "$gpus" -lt 6 ]; then
    leave_out "tests of NCCL" "devices: $gpus; they have up to 6 ranks, NCCL wants a device for each"
  elif built gpu_nccl "tests of NCCL" "no catch2/catch.hpp (CATCH2_INCLUDE)"; then
    check "nccl: a device for each rank" "$build/gpu_nccl" --warn NoTests
  fi
fi
if built gpu_torch_process "process groups of PyTorch" "no torch with CUDA, or no NCCL"; then
  for ranks in 1 2; do
    processes "torch: ProcessGroupNCCL" "$ranks" "$build/gpu_torch_process"
  done
  finish
fi
[ -z "$failed" ] || { echo "tests/gpu: FAILED:$failed" >&2; exit 1; }
[ -z "$not_run" ] || { echo "tests/gpu: all that was run has passed; NOT RUN:$not_run" >&2; exit 77; }
echo "tests/gpu: all has passed"
