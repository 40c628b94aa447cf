# SPDX-License-Identifier: Apache-2.0
# What the time of an iteration goes to (the paper's figure 12).
# Set: here, csv, svg, cluster, devices, model
load here."/style.gp"
set title sprintf("An iteration of %s on cluster %s, %d devices", model, cluster, devices)
set ylabel "milliseconds"
set yrange [0:*]
set xtics rotate by -30
set style histogram rowstacked
set boxwidth 0.7
data = rows(cluster, devices, "^".model."$", ".*", "all")
plot data using ($10 / 1000):xtic(4) title "attention, dense", \
     "" using ($11 / 1000) title "experts", \
     "" using ($12 / 1000) title "tokens sent", \
     "" using ($13 / 1000) title "experts sent"
