#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that 05_mpi.cpp is 01_first_program.cpp but for one include and one line, and that both
# programs print the same lines.
# usage: check_example.sh SOURCE_DIR FIRST_PROGRAM MPI_PROGRAM MPIEXEC NUMPROC_FLAG
set -eu
source_dir=$1
changed=$(diff "$source_dir/examples/01_first_program.cpp" "$source_dir/examples/05_mpi.cpp" |
  grep '^>' | grep -v '^> //') || true
expected='> #include "fssdp/comm/mpi.hpp"
>   fssdp::mpi_world{}.run([](fssdp::communicator auto& comm) {'
[ "$changed" = "$expected" ] || { echo "05_mpi.cpp differs in: $changed"; exit 1; }

threads=$("$2" | sort)
processes=$("$4" "$5" 4 "$3" | grep '^rank ' | sort)  # UCX prints its complaints there, too
echo "$processes"
[ "$(echo "$processes" | wc -l)" -eq 4 ] || { echo "expected four lines"; exit 1; }
[ "$threads" = "$processes" ] || { echo "threads print: $threads"; exit 1; }
