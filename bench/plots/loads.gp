# SPDX-License-Identifier: Apache-2.0
# Loads of a layer's experts over time, stacked (the paper's figure 3).
# Set: here, csv (what --write-trace or --trace has), svg, layer
load here."/style.gp"
columns = words(system(sprintf("head -n 1 '%s' | tr , ' '", csv)))
set title sprintf("Loads of the %d experts of layer %d", columns - 2, layer)
set xlabel "iteration"
set ylabel "share of the tokens"
set yrange [0:1]
set xrange [*:*] noextend
unset key
set style fill solid 1.0 noborder
set palette defined (0 "#08306b", 0.25 "#4292c6", 0.5 "#c7e9c0", 0.75 "#fd8d3c", 1 "#7f2704")
unset colorbox
# Sums up to each expert, over the sum of all; the largest first, as later ones are drawn above.
stacked = sprintf("< awk -F, 'NR > 1 && $2 == %d { s = 0; for (i = 3; i <= NF; ++i) s += $i; t = 0; printf \"%%s\", $1; for (i = 3; i <= NF; ++i) { t += $i; printf \",%%.6f\", (s > 0 ? t / s : 0) } print \"\" }' '%s'", layer, csv)
plot for [i = columns - 1 : 2 : -1] stacked using 1:i with filledcurves x1 \
  linecolor palette frac (i - 2.0) / (columns - 3.0)
