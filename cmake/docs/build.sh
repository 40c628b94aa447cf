#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs Doxygen on the headers and the guides, and follows the links of the pages that it writes.
# usage: build.sh DOXYGEN SOURCE_DIR FOLDER, where FOLDER/Doxyfile is and FOLDER/html will be
set -eu
doxygen=$1
source=$2
folder=$3
rm -rf "$folder/html"

# What guides link to besides guides, headers and pictures becomes a listing of its own.
guides=$(find "$source" -name build -prune -o -name '.?*' -prune -o -name '*.md' -print)
for guide in $guides; do
  awk -v root="$source" -v only=listings -f "$source/cmake/docs/guides.awk" "$guide"
done | LC_ALL=C sort -u | while read -r file; do
  printf '/** @example %s\n    As it is in the repository. */\n' "$file"
done >"$folder/listings.dox"

"$doxygen" "$folder/Doxyfile"

cd "$folder/html"
failed=0
linked=$(cat ./*.html | grep -oE '(href|src)="[^"#:]+[#"]' | sed 's/^[a-z]*="//; s/["#]$//' |
  sort -u)
for page in $linked; do
  [ -f "$page" ] && continue
  echo "$page: a page links to it, and it is not there" >&2
  failed=1
done
if grep -lE '<(script|img|link)[^>]*(src|href)="(https?:)?//' ./*.html >&2; then
  echo "these pages take something from the network" >&2
  failed=1
fi
exit $failed
