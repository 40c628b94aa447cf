# SPDX-License-Identifier: Apache-2.0
# Memory for experts on the device that has most (the paper's figure 13).
# Set: here, csv, svg, cluster, devices
load here."/style.gp"
policies = "ep fastermoe smartmoe flexmoe eplb fsep hecate hecate-rm ours"
set title sprintf("Experts' parameters, optimizer state and replicas on cluster %s, %d devices", cluster, devices)
set ylabel "GB of a device"
set yrange [0:*]
set style histogram clustered gap 1
plot for [p in policies] rows(cluster, devices, "", p, "all") using ($15 / 1e9):xtic(3) title p linecolor rgb colour(p)
