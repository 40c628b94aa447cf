#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures iterations on emulated devices and draws them, as SVG. It takes some ten minutes.
# usage: steps.sh FSSDP_STEP FOLDER [OPTIONS of fssdp_step]
set -eu
usage="usage: steps.sh FSSDP_STEP FOLDER [OPTIONS of fssdp_step]"
step=${1:?$usage}
folder=${2:?$usage}
shift 2
here=$(dirname "$0")
mkdir -p "$folder"
[ $# -gt 0 ] || set -- --cluster a --iterations 4 --slow 16
"$step" "$@" --csv >"$folder/steps.csv"
gnuplot -e "here='$here'; csv='$folder/steps.csv'; svg='$folder/steps.svg'" "$here/steps.gp"
echo "$folder/steps.svg"
