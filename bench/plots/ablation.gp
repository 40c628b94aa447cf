# SPDX-License-Identifier: Apache-2.0
# Hecate with each part on and off (the paper's figure 15).
# Set: here, csv, svg, cluster, devices
load here."/style.gp"
policies = "ep hecate-no-materialization hecate-no-sharding hecate hecate-rm ours"
set title sprintf("Parts of Hecate on cluster %s, %d devices", cluster, devices)
set ylabel "speedup over expert parallelism"
set yrange [0:*]
set style histogram clustered gap 1
plot for [p in policies] rows(cluster, devices, "", p, "all") using 6:xtic(3) title p linecolor rgb colour(p)
