#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes every block of C++ (```cpp) of every guide below DIR into a file of its own: the third one
# of include/fssdp/comm/README.md is FOLDER/guides/include/fssdp/comm/README.md/3.inc. A test
# includes it where it belongs: what a guide shows is what is tested. Compilers name lines of the
# guide. Files that have not changed are left alone. Prints the guides that have blocks.
# usage: extract.sh DIR FOLDER
set -eu
cd "${1:?usage: extract.sh DIR FOLDER}"
folder=${2:?usage: extract.sh DIR FOLDER}/guides
find . -name build -prune -o -name '.?*' -prune -o -name '*.md' -print | sed 's|^\./||' |
  LC_ALL=C sort | while read -r guide; do
  grep -q '^```cpp$' "$guide" || continue
  echo "$guide"
  blocks=$folder/$guide
  mkdir -p "$blocks.new"
  awk -v blocks="$blocks.new" -v guide="$guide" '
    /^```cpp$/ {
      file = blocks "/" ++n ".inc"
      printf "#line %d \"%s\"\n", NR + 1, guide >file
      next
    }
    /^```/ && file != "" { close(file); file = ""; next }
    file != "" { print >file }
  ' "$guide"
  mkdir -p "$blocks"
  for old in "$blocks"/*.inc; do
    [ -f "$blocks.new/${old##*/}" ] || rm -f "$old"
  done
  for new in "$blocks.new"/*.inc; do
    cmp -s "$new" "$blocks/${new##*/}" || mv "$new" "$blocks/"
  done
  rm -rf "$blocks.new"
done
