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

# Every policy has its colour in all figures.
colours = "ep #999999 fsdp #0072b2 fastermoe #e69f00 smartmoe #009e73 flexmoe #cc79a7 eplb #56b4e9 " . \
  "fsep #f0e442 hecate #8c564b ours #d55e00 hecate-no-materialization #c9a88f " . \
  "hecate-no-sharding #ac8265 hecate-rm #5c3a30"
colour(policy) = word(colours, sum [i = 1:words(colours)] (word(colours, i) eq policy ? i + 1 : 0))

# The lines of one cluster and policy; `layer` is "all" or a regular expression for numbers.
rows(cluster, devices, model, policy, layer) = sprintf("< awk -F, '$1 == \"%s\" && $2 == %d && $3 ~ /%s/ && $4 ~ /^(%s)$/ && $5 ~ /^(%s)$/' '%s'", \
  cluster, devices, model, policy, layer, csv)
