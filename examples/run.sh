#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the trainer and trains: sh examples/run.sh [arguments of moe_gpt]
# (--help lists them). With --backend mpi it runs under mpirun, in as many processes as --ranks
# says. Installs what it needs on Debian and Ubuntu where it may.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
build=$root/build/demo

# shellcheck source=cmake/progress.sh
. "$root/cmake/progress.sh"
# shellcheck source=cmake/need_packages.sh
. "$root/cmake/need_packages.sh"
need program g++ "${CXX:-c++}"
need cmake cmake cmake
need program ninja-build ninja
need header libcli11-dev CLI/CLI.hpp
need header nlohmann-json3-dev nlohmann/json.hpp
need header libfmt-dev fmt/format.h
need header libxxhash-dev xxhash.h
want header libopenblas-dev openblas-pthread/openblas_config.h openblas_config.h \
  openblas/openblas_config.h blis/blis.h blis.h mkl_cblas.h mkl/mkl_cblas.h
want program libopenmpi-dev mpicxx
want program openmpi-bin mpirun
get_packages

mkdir -p "$build"
in_root() (  # in_root COMMAND...: the caller's folder stays what it is
  cd "$root" && "$@"
)
if ! in_root cmake --preset demo >"$build/configure.log" 2>&1; then
  cat "$build/configure.log" >&2
  echo "moe_gpt cannot be configured; the lines above say why." >&2
  exit 1
fi
backend=thread ranks=4 targets=moe_gpt last=''
for argument; do
  case $last in
    --backend) backend=$argument ;;
    --ranks) ranks=$argument ;;
  esac
  case $argument in
    --backend=*) backend=${argument#*=} ;;
    --ranks=*) ranks=${argument#*=} ;;
    --trace | --trace=*) targets='moe_gpt draw_trace' ;;  # that draws a trace
  esac
  last=$argument
done

jobs=$(getconf _NPROCESSORS_ONLN)
# shellcheck disable=SC2086  # a list
if ! with_progress build "Building moe_gpt" "$build/build.log" \
    in_root cmake --build --preset demo --parallel "$jobs" --target $targets; then
  echo "moe_gpt does not build; everything that was printed: $build/build.log" >&2
  exit 1
fi

if [ "$backend" = mpi ]; then
  command -v mpirun >/dev/null || { echo 'mpirun is missing: install openmpi-bin' >&2; exit 1; }
  if [ "$(id -u)" -eq 0 ]; then  # which Open MPI wants to be told
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  # more ranks than cores are fine
  export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  exec mpirun -np "$ranks" "$build/examples/moe_gpt" "$@"
fi
exec "$build/examples/moe_gpt" "$@"
