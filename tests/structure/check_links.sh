#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the links of all guides (*.md) below DIR: files, folders and headings that they lead to are
# there. What begins with a scheme, as https:, is not looked at. Prints file:line and the reason.
# usage: check_links.sh DIR
cd "${1:?usage: check_links.sh DIR}" || exit 1
guides=$(find . -name build -prune -o -name '.?*' -prune -o -name '*.md' -print | sed 's|^\./||' |
  LC_ALL=C sort)
[ -n "$guides" ] || { echo "no guides in $1" >&2; exit 1; }

# Where each link leads, as guide:line:path#anchor, and the headings that are there, =path#anchor.
# shellcheck disable=SC2086  # no guide has a space in its name
found=$(awk '
  function resolved(folder, link,    parts, n, i, kept, path) {  # a/b, ../c.md: a/c.md
    n = split(folder == "" ? link : folder "/" link, parts, "/")
    kept = 0
    for (i = 1; i <= n; ++i) {
      if (parts[i] == ".." && kept > 0 && parts[kept] != "..") --kept
      else if (parts[i] != "." && parts[i] != "") parts[++kept] = parts[i]
    }
    for (i = 1; i <= kept; ++i) path = path (i > 1 ? "/" : "") parts[i]
    return path == "" ? "." : path
  }
  function anchor_of(heading) {  # as GitHub names it
    heading = tolower(heading)
    gsub(/[^a-z0-9 _-]/, "", heading)
    gsub(/ /, "-", heading)
    return heading
  }
  FNR == 1 {
    is_code = 0
    folder = FILENAME
    if (!sub(/\/[^\/]*$/, "", folder)) folder = ""
  }
  /^ *```/ { is_code = !is_code; next }
  is_code || /^    / { next }
  /^#+ / {
    heading = $0
    sub(/^#+ /, "", heading)
    anchor = anchor_of(heading)
    print "=" FILENAME "#" anchor ((FILENAME, anchor) in times ? "-" times[FILENAME, anchor] : "")
    ++times[FILENAME, anchor]
  }
  {
    gsub(/`[^`]*`/, "`")
    while (match($0, /\]\([^)]*\)/)) {
      link = substr($0, RSTART + 2, RLENGTH - 3)
      $0 = substr($0, RSTART + RLENGTH)
      if (link ~ /^[a-z]+:/) continue
      anchor = path = link
      if (!sub(/^[^#]*#/, "", anchor)) anchor = ""
      sub(/#.*/, "", path)
      path = path == "" ? FILENAME : resolved(folder, path)
      print FILENAME ":" FNR ":" path "#" anchor
    }
  }
' $guides)

headings=$(echo "$found" | grep '^=')
failed=0
for link in $(echo "$found" | grep -v '^='); do
  where=${link%:*}
  target=${link##*:}
  path=${target%%#*}
  if [ ! -e "$path" ]; then
    echo "$where: a link leads to $path, which is not there"
    failed=1
  elif [ "$target" != "$path#" ] && ! echo "$headings" | grep -qxF "=$target"; then
    echo "$where: a link leads to the heading #${target#*#} of $path, which is not there"
    failed=1
  fi
done
exit $failed
