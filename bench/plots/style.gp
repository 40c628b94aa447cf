# SPDX-License-Identifier: Apache-2.0
# What all figures have in common. Set before: csv (what fssdp_sim --csv wrote), svg (to be written).
set terminal svg size 900,420 font "Helvetica,13" background "white"
set output svg
set datafile separator ","
set border 3
set tics nomirror out
set grid ytics linecolor "#dddddd"
set key outside right top vertical samplen 1 spacing 1.1
set style data histograms
set style fill solid 0.9 noborder
set boxwidth 0.9
set linetype  1 linecolor "#999999"
set linetype  2 linecolor "#0072b2"
set linetype  3 linecolor "#e69f00"
set linetype  4 linecolor "#009e73"
set linetype  5 linecolor "#cc79a7"
set linetype  6 linecolor "#56b4e9"
set linetype  7 linecolor "#f0e442"
set linetype  8 linecolor "#8c564b"
set linetype  9 linecolor "#d55e00"

# The lines of one cluster and policy; `layer` is "all" or a regular expression for numbers.
rows(cluster, devices, model, policy, layer) = sprintf("< awk -F, '$1 == \"%s\" && $2 == %d && $3 ~ /%s/ && $4 ~ /^(%s)$/ && $5 ~ /^(%s)$/' '%s'", \
  cluster, devices, model, policy, layer, csv)
