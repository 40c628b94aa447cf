# SPDX-License-Identifier: Apache-2.0
# What Doxygen reads in the place of a header: each header is a topic of its folder, and namespace
# detail is left out. Lines keep their numbers. A header without a public name gives nothing.
# usage: awk -f headers.awk include/fssdp/FOLDER/NAME.hpp
{ lines[NR] = $0 }

# include/fssdp/comm/mpi/mpi_call.hpp: the topic header_comm_mpi_mpi_call of folder_comm
function topic_of(path,    parts, n) {
  n = split(path, parts, "include/fssdp/")
  path = parts[n]
  sub(/\.(hpp|cuh)$/, "", path)
  title = path
  folder = path ~ /\// ? substr(path, 1, index(path, "/") - 1) : "version"
  sub(/^[^\/]*\//, "", title)
  folder = "folder_" folder
  gsub(/\//, "_", path)
  return "header_" path
}

END {
  for (i = 1; i <= NR; ++i) {
    if (lines[i] ~ /^namespace fssdp \{/) {
      is_public = 1
      lines[i] = lines[i] " /** @within{" topic_of(FILENAME) "," folder "} */ /** @{ */"
    } else if (lines[i] ~ /^}  \/\/ namespace fssdp$/) lines[i] = "/** @} */ }"
    else if (lines[i] ~ /^namespace (fssdp::)?detail \{/) is_hidden[i] = in_detail = 1
    else if (in_detail) {
      is_hidden[i] = 1
      if (lines[i] ~ /^}  \/\/ namespace (fssdp::)?detail/) in_detail = 0
    } else if (is_public && lines[i] ~ /^[a-z\[]/) has_names = 1
  }
  if (!has_names) exit
  lines[1] = "/// @defgroup " topic_of(FILENAME) " " title
  for (i = 1; i <= NR; ++i) {
    sub(/^#if __has_include.*/, "#if 1", lines[i])
    sub(/\/\/\/ @throws /, "/// @errors ", lines[i])  # in words, beyond the name of a type
    if (lines[i] ~ /^ *\/\/\/ \(/) sub(/\/\/\/ /, "/// @apart ", lines[i])  # (Paper: ...)
    print is_hidden[i] ? "" : lines[i]
  }
}
