# SPDX-License-Identifier: Apache-2.0
# Each MoE layer over expert parallelism (the paper's figure 11).
# Set: here, csv, svg, cluster, devices, model
load here."/style.gp"
policies = "fastermoe smartmoe flexmoe eplb fsep hecate ours"
set title sprintf("MoE layers of %s on cluster %s, %d devices", model, cluster, devices)
set xlabel "layer"
set ylabel "speedup over expert parallelism"
set yrange [0:*]
set style histogram clustered gap 1
plot for [p in policies] rows(cluster, devices, "^".model."$", p, "[0-9]+") using 7:xtic(5) title p linecolor rgb colour(p)
