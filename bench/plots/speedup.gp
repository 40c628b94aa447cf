# SPDX-License-Identifier: Apache-2.0
# Iterations over expert parallelism, per model and policy (the paper's figures 9 and 10).
# gnuplot -e "here='bench/plots'; csv='all.csv'; svg='speedup.svg'; cluster='a'; devices=32" speedup.gp
load here."/style.gp"
policies = "ep fsdp fastermoe smartmoe flexmoe eplb fsep hecate ours"
set title sprintf("Iterations on cluster %s, %d devices", cluster, devices)
set ylabel "speedup over expert parallelism"
set yrange [0:*]
set style histogram clustered gap 1
plot for [p in policies] rows(cluster, devices, "", p, "all") using 6:xtic(3) title p linecolor rgb colour(p)
