#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the doc blocks of the headers below DIR/include/fssdp: every public name has one, and that
# of a function which is given a communicator to use says what it costs. Public is what stands in
# namespace fssdp outside of detail; of classes public functions are looked at, but no constructors.
# A block is also for what follows without an empty line. Prints file:line and the reason.
# usage: check_docs.sh DIR
cd "${1:?usage: check_docs.sh DIR}/include/fssdp" || exit 1
headers=$(find . -name '*.hpp' -o -name '*.cuh' | grep -v _inl | sed 's|^\./||' | LC_ALL=C sort)
[ -n "$headers" ] || { echo "no headers in $1/include/fssdp" >&2; exit 1; }
# shellcheck disable=SC2086  # no header has a space in its name
awk '
  function report(line, reason) {
    print "include/fssdp/" FILENAME ":" line ": " reason
    failed = 1
  }
  # What follows template <...> and requires ...: the words that begin with the declared name.
  function without_template(text,    depth, i, letter) {
    if (text !~ /^template </) return text
    depth = 0
    for (i = 10; i <= length(text); ++i) {
      letter = substr(text, i, 1)
      if (letter == "<") ++depth
      if (letter == ">" && substr(text, i - 1, 1) != "-" && --depth == 0) break
    }
    return substr(text, i + 2)
  }
  function kind_of(text) {
    text = without_template(text)
    if (text ~ /^(class|struct|union) [^();]*;$/) return "announcement"
    if (text ~ /^friend /) return "friend"
    if (text ~ /^(class|struct|union) /) return "class"
    if (text ~ /^enum /) return "enum"
    if (text ~ /^concept /) return "concept"
    if (text ~ /^using [a-z_0-9A-Z]+ *=/) return "alias"
    if (text ~ /^(using|static_assert|extern|asm)/) return "none"
    if (text ~ /^[a-zA-Z_0-9]+\(.*-> ?[a-z_0-9]+(<.*>)?;$/) return "guide"
    if (text ~ /\(/ && text !~ /^[^(]*[^=!<>]=[^=]/) return "function"
    return "value"
  }
  function name_of(text, kind,    name) {
    name = without_template(text)
    if (kind == "function") {
      gsub(/\[\[[^]]*\]\]|requires *\([^)]*\)|decltype\([^)]*\)/, "", name)
      if (match(name, /operator *[^ a-z(]+ *\(|operator\(\)/))
        name = substr(name, RSTART, RLENGTH - 1)
      else if (match(name, /[A-Za-z_0-9:~]+\(/)) name = substr(name, RSTART, RLENGTH - 1)
    } else if (kind == "value") {
      sub(/ *[={;].*/, "", name)
      sub(/<.*/, "", name)
      sub(/.* /, "", name)
    } else {
      sub(/^(class|struct|union|enum class|enum|concept|using) /, "", name)
      sub(/^[A-Z_]+ /, "", name)
      sub(/[^A-Za-z_0-9].*/, "", name)
    }
    return name
  }
  function is_collective(text) {  # of the parameters
    text = without_template(text)
    sub(/^[^(]*/, "", text)
    return text ~ /[(, ](Comm|[a-z_]+_communicator|communicator_ref const)&&? [a-z]/ ||
           text ~ /communicator auto&&? [a-z]/
  }
  function look_at(text, line,    kind, name) {
    kind = kind_of(text)
    name = name_of(text, kind)
    if (kind ~ /^(announcement|friend|none|guide)$/ || text ~ /^template <> /) {
    } else if (in_class) {
      if (kind == "function" && name != class_name && is_collective(text) && block !~ /@cost/)
        report(line, class_name "::" name " takes a communicator, and has no @cost")
    } else if (kind == "function" && (name ~ /::/ || (FILENAME, name) in declared)) {
    } else {
      if (block == "" && !(last_line + 1 == line && had_block)) {
        report(line, "the " kind " " name " has no doc block")
        had_block = 0
      } else had_block = 1
      if (kind == "function" && text ~ /;$/) declared[FILENAME, name] = 1
      if (kind == "function" && is_collective(text) && block !~ /@cost/ && block != "")
        report(line, name " takes a communicator, and has no @cost")
    }
    last_name = name
    return kind
  }

  FNR == 1 {
    is_public = in_detail = in_class = in_body = in_requires = last_line = 0
    text = block = ""
  }
  /^namespace fssdp \{/ { is_public = 1; block = ""; next }
  /^}  \/\/ namespace fssdp$/ { is_public = 0; next }
  /^namespace (fssdp::)?detail \{/ { in_detail = 1; next }
  /^}  \/\/ namespace (fssdp::)?detail/ { in_detail = 0; block = ""; next }
  in_detail || !is_public { next }
  /^#/ { next }
  in_requires { in_requires = !/^}/; next }
  /^}/ { in_class = in_body = 0; block = ""; last_line = FNR; next }
  in_body { next }
  in_class && /^ (public|private|protected):/ { is_shown = /public/; block = text = ""; next }
  in_class && !is_shown { next }
  text == "" && /^ *\/\/\// { block = block "\n" $0; next }
  text == "" && /^ *$/ { block = ""; next }
  text == "" && !(in_class ? /^  [^ }\/#]/ : /^[^ }\/#]/) { next }
  {
    part = $0
    sub(/ *\/\/.*/, "", part)
    sub(/^ */, "", part)
    if (text == "") first = FNR
    text = text (text == "" ? "" : " ") part
    is_condition = part ~ /^requires/ && text !~ /concept /
    in_requires = is_condition && part ~ /\{$/
    if (is_condition || part !~ /[;{}]$/) next
    kind = look_at(text, first)
    if (!in_class) {
      last_line = FNR
      if (part ~ /\{$/) {
        if (kind == "class") {
          in_class = 1
          is_shown = without_template(text) ~ /^struct/
          class_name = last_name
        } else in_body = 1
      }
    }
    text = block = ""
  }
  END { exit failed }
' $headers
