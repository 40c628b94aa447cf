#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that the README shows the first program whole.
# usage: check_readme.sh DIR
cd "${1:?usage: check_readme.sh DIR}" || exit 1
shown=$(awk '/^```cpp$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' README.md)
[ -n "$shown" ] || { echo "README.md shows no program"; exit 1; }
program=$(sed 1,2d examples/01_first_program.cpp)  # without the comment that says what it is
[ "$shown" = "$program" ] || { echo "README.md shows another program than 01_first_program.cpp"; exit 1; }
