#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Simulates the paper's models on its clusters and draws the results as SVG.
# usage: draw.sh FSSDP_SIM FOLDER [TRACE.csv]
# TRACE.csv has loads (fssdp_sim --help); without it they are synthetic.
set -eu
usage="usage: draw.sh FSSDP_SIM FOLDER [TRACE.csv]"
sim=${1:?$usage}
folder=${2:?$usage}
trace=${3:-}
here=$(dirname "$0")
mkdir -p "$folder"

# An empty name of a trace must not become an argument.
simulate() { "$sim" ${trace:+--trace "$trace"} "$@"; }

draw() {  # draw SCRIPT NAME SETTINGS
  gnuplot -e "here='$here'; csv='$folder/$4'; svg='$folder/$2.svg'; $3" "$here/$1.gp"
  echo "$folder/$2.svg"
}

csv=simulated.csv
simulate --cluster a,b --devices 16,32 \
  --model gpt-moe-s,gpt-moe-l,bert-moe,bert-moe-deep --csv >"$folder/$csv"
if [ -n "$trace" ]; then
  cp "$trace" "$folder/loads.csv"
else
  "$sim" --policy ep --iterations 1000 --jumps 0.005 --write-trace "$folder/loads.csv" >/dev/null
fi

for cluster in a b; do
  for devices in 16 32; do
    draw speedup "speedup-$cluster-$devices" "cluster='$cluster'; devices=$devices" $csv
  done
  set_32="cluster='$cluster'; devices=32"
  draw memory "memory-$cluster" "$set_32" $csv
  draw ablation "ablation-$cluster" "$set_32" $csv
  for model in gpt-moe-s gpt-moe-l; do
    draw layers "layers-$cluster-$model" "$set_32; model='$model'" $csv
    draw critical_path "critical-path-$cluster-$model" "$set_32; model='$model'" $csv
  done
done
for layer in 0 5 11; do draw loads "loads-$layer" "layer=$layer" loads.csv; done
