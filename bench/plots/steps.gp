# SPDX-License-Identifier: Apache-2.0
# Measured iterations over expert parallelism, a bar for each policy, and what the model predicts.
# gnuplot -e "here='bench/plots'; csv='steps.csv'; svg='steps.svg'" steps.gp
load here."/style.gp"
set title "Iterations on emulated devices, measured, and as the model predicts them"
set ylabel "speedup over expert parallelism"
set yrange [0:*]
set style histogram clustered gap 1
set xtics rotate by -30
set key inside left top
# columns of the CSV: 1 cluster, 4 policy, 5 measured_us, 7 predicted_us, 8 over_ep
lines(cluster) = sprintf("< awk -F, 'NR > 1 && $1 == \"%s\" { if ($4 == \"ep\") ep = $7; print }' '%s'", cluster, csv)
cluster = system(sprintf("awk -F, 'NR == 2 { print $1 }' '%s'", csv))
ep = real(system(sprintf("awk -F, 'NR > 1 && $4 == \"ep\" { print $7; exit }' '%s'", csv)))
plot lines(cluster) using 8:xtic(4) title "measured" linecolor rgb "#d55e00", \
     "" using (ep / $7) title "model" linecolor rgb "#999999"
