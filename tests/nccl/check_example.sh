#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that the first program and 07_nccl print the same lines.
# usage: check_example.sh FIRST_PROGRAM NCCL_PROGRAM
set -eu
threads=$("$1" | sort)
devices=$("$2" | sort)
echo "$devices"
[ "$(echo "$devices" | wc -l)" -eq 4 ] || { echo "expected four lines"; exit 1; }
[ "$threads" = "$devices" ] || { echo "threads print: $threads"; exit 1; }
