#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs ranks that are processes over NCCL, all on one device if there are no more: each says that it
# is a host of its own, as NCCL refuses two ranks on one device of a host. They talk over sockets, so
# this is about what arrives, not how fast. Each PROGRAM is given RANK RANKS FILE ARGUMENT...; they
# meet in files whose names begin with FILE, of which FILE.end.RANK says that a process has ended.
# usage: nccl_processes.sh RANKS PROGRAM [ARGUMENT...]
set -eu
ranks=$1
program=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

unset CUDA_DEVICE_MAX_CONNECTIONS  # a few streams each
export NCCL_NET=Socket NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
export NCCL_MNNVL_ENABLE=0 NCCL_NVLS_ENABLE=0 NCCL_MAX_CTAS=4
pids=""
rank=0
while [ "$rank" -lt "$ranks" ]; do
  (
    code=0
    NCCL_HOSTID="rank-$rank" "$program" "$rank" "$ranks" "$folder/id" "$@" || code=$?
    : >"$folder/id.end.$rank"  # the others need not wait for it
    exit "$code"
  ) &
  pids="$pids $!"
  rank=$((rank + 1))
done
failed=0
for pid in $pids; do
  wait "$pid" || failed=1
done
exit "$failed"
