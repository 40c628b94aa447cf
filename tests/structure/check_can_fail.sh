#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Plants one fault of each kind into a copy of the headers: check_includes.sh must name them all.
# usage: check_can_fail.sh SOURCE_DIR SCRATCH_DIR
set -eu
check=$1/tests/structure/check_includes.sh
rm -rf "$2"
mkdir -p "$2/include"
cp -R "$1/include/fssdp" "$2/include/"
cp -R "$1/src" "$2/"
headers=$2/include/fssdp
expected=0

plant() {  # plant FILE 'INCLUDE LINE': the line becomes line 3 of a new header
  mkdir -p "$(dirname "$headers/$1")"
  printf '// a planted fault\n#pragma once\n%s\n' "$2" >"$headers/$1"
  expected=$((expected + 1))
}
plant core/planted.hpp '#include "fssdp/topology/topology.hpp"'
plant codec/planted.hpp '#include "fssdp/topology/topology.hpp"'
plant topology/planted.hpp '  #  include <fssdp/layout/block_layout.hpp>  // upward'
plant layout/planted.hpp '#include "fssdp/placement/placement.hpp"'
plant placement/planted.hpp '#include "fssdp/solver/everywhere.hpp"'
plant solver/planted.hpp '#include "fssdp/plan/make_plan.hpp"'
plant plan/planted.hpp '#include "fssdp/solver/everywhere.hpp"'
plant comm/planted.hpp '#include "fssdp/layout/block_layout.hpp"'
plant collective/planted.hpp '#include "fssdp/token/dispatch.hpp"'
plant checkpoint/planted.hpp '#include "fssdp/runtime/materializer.hpp"'
plant runtime/planted.hpp '#include "fssdp/checkpoint/checksum.hpp"'
plant token/planted.hpp '#include "fssdp/solver/everywhere.hpp"'
plant collective/planted_back_end.hpp '#include "fssdp/comm/thread.hpp"'
plant comm/peer/planted.hpp '#include "fssdp/comm/nccl/nccl_call.hpp"'
plant comm/cuda/planted.hpp '#include "fssdp/comm/nccl.hpp"'
plant core/planted_umbrella.hpp '#include "fssdp/fssdp.hpp"'
plant core/planted_umbrella_of_all.hpp '#include "fssdp/all.hpp"'
plant core/planted_relative.hpp '#include "index.hpp"'
plant core/planted_vendor.hpp '#include <mpi.h>'
plant core/planted_torch.hpp '#include <c10/core/Device.h>'
plant memory/planted_tensors.hpp '#include <ATen/core/Tensor.h>'
plant comm/c10d/planted.hpp '#include "fssdp/comm/mpi/mpi_call.hpp"'
plant comm/nccl/planted_torch.hpp '#include "fssdp/comm/c10d.hpp"'
plant core/planted_profiler.hpp '#include <nvtx3/nvToolsExt.h>'
plant core/planted_posix.hpp '#include <sys/mman.h>'
plant core/planted_json.hpp '#include <nlohmann/json.hpp>'
plant plan/planted_hash.hpp '#include <xxhash.h>'
plant fssdp.hpp '#include "fssdp/comm/thread.hpp"
#include "fssdp/checkpoint/save_checkpoint.hpp"
#include "fssdp/file/file_memory.hpp"
#include "fssdp/comm/shared_memory.hpp"'
expected=$((expected + 3))
plant solver/planted_inl.hpp ''
plant solver/planted_twice_inl.hpp ''
for part in collectives planning; do
  echo '#include "fssdp/solver/planted_twice_inl.hpp"' >>"$2/src/compiled_$part.cpp"
done
plant unknown/planted.hpp '#include "fssdp/core/index.hpp"'

if found=$(sh "$check" "$2"); then
  echo "the check passes on headers with planted faults" >&2
  exit 1
fi
echo "$found"
named=$(echo "$found" | grep -c -E '(planted[a-z_]*|fssdp/fssdp)\.hpp:[13456]: ')
[ "$named" -eq "$expected" ] || { echo "$named of $expected faults are named" >&2; exit 1; }

yes '// long' | head -n 401 >"$headers/core/planted.hpp"
sh "$check" "$2" | grep -q '^include/fssdp/core/planted.hpp:401: ' || {
  echo "a header of 401 lines passes" >&2
  exit 1
}
yes '// long' | head -n 400 >"$headers/core/planted.hpp"
if sh "$check" "$2" | grep -q '^include/fssdp/core/planted.hpp:'; then
  echo "a header of 400 lines does not pass" >&2
  exit 1
fi
rm -rf "$2"
