# SPDX-License-Identifier: Apache-2.0
# What Doxygen reads in the place of a guide: pages, headings and links have names that it knows.
# Links to guides lead to their pages, those to headers to their topics, those to other files to
# listings of them, and those to folders to the list of all listings.
# usage: awk -v root=DIR -f guides.awk DIR/GUIDE.md
# With -v only=listings it prints only which files have to have listings.
BEGIN { topic_path = "include/fssdp/" }

function page_of(path) {  # include/fssdp/comm/README.md: guide_include_fssdp_comm_README
  if (path == "README.md") return "mainpage"
  sub(/\.md$/, "", path)
  gsub(/[^A-Za-z0-9]/, "_", path)
  return "guide_" path
}

function anchor_of(heading) {  # as GitHub names it
  heading = tolower(heading)
  gsub(/[^a-z0-9 _-]/, "", heading)
  gsub(/ /, "-", heading)
  return heading
}

function resolved(folder, link,    parts, n, i, kept, path) {  # a/b, ../c.md: a/c.md
  n = split(folder == "" ? link : folder "/" link, parts, "/")
  kept = 0
  for (i = 1; i <= n; ++i) {
    if (parts[i] == "..") --kept
    else if (parts[i] != ".") parts[++kept] = parts[i]
  }
  for (i = 1; i <= kept; ++i) path = path (i > 1 ? "/" : "") parts[i]
  return path
}

function target_of(link,    anchor, path) {
  anchor = ""
  if (link ~ /#/) {
    anchor = link
    sub(/^[^#]*#/, "", anchor)
    sub(/#.*/, "", link)
  }
  path = link == "" ? guide : resolved(folder, link)
  if (path ~ /\.svg$/) {
    sub(/.*\//, "", path)
    return path
  }
  if (path ~ /\.md$/) return "@ref " page_of(path) (anchor == "" ? "" : "-" anchor)
  if (index(path, topic_path) == 1 && path ~ /\.(hpp|cuh)$/) {
    path = substr(path, length(topic_path) + 1)
    sub(/\.(hpp|cuh)$/, "", path)
    gsub(/\//, "_", path)
    return "@ref header_" path
  }
  if (path !~ /\.[^.\/]*$/) return "examples.html"
  if (only == "listings") print path
  gsub(/\//, "_2", path)
  gsub(/\./, "_8", path)
  return path "-example.html"
}

function show(text) {
  if (only != "listings") print text
}

FNR == 1 {
  guide = substr(FILENAME, length(root) + 2)
  folder = guide
  if (!sub(/\/[^\/]*$/, "", folder)) folder = ""
}
/^ *```/ {
  is_code = !is_code
  sub(/```cpp$/, "```{.cpp}")
  sub(/```python$/, "```{.py}")
  show($0)
  next
}
is_code || /^    / { show($0); next }
/^#+ / {
  heading = $0
  sub(/^#+ /, "", heading)
  anchor = page_of(guide) "-" anchor_of(heading)
  if (/^# /) show($0 " {#" page_of(guide) "}\n@anchor " anchor)
  else show($0 " {#" anchor "}")
  next
}
{
  rest = $0
  line = ""
  while (match(rest, /\]\([^)]*\)/)) {
    link = substr(rest, RSTART + 2, RLENGTH - 3)
    is_ours = link !~ /^[a-z]+:/ && link ~ /^[^ ]+$/
    line = line substr(rest, 1, RSTART - 1) "](" (is_ours ? target_of(link) : link) ")"
    rest = substr(rest, RSTART + RLENGTH)
  }
  show(line rest)
}
