#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the headers below DIR/include/fssdp: an include points down or sideways, never up; a back
# end is included by itself and by those that stand on it; only back ends include a vendor, only what
# has to do with files POSIX; no header has over 400 lines; one of src/compiled_*.cpp includes each body.
# Prints file:line and the reason.
# usage: check_includes.sh DIR
cd "${1:?usage: check_includes.sh DIR}/include/fssdp" || exit 1
headers=$(find . -name '*.hpp' -o -name '*.cuh' | sed 's|^\./||' | LC_ALL=C sort)
[ -n "$headers" ] || { echo "no headers in $1/include/fssdp" >&2; exit 1; }

failed=0
# shellcheck disable=SC2086  # no header has a space in its name
awk '
  BEGIN {
    # the floors: what a folder may include besides itself, each with all that it may include
    may("core", "")
    may("memory", "core")
    may("file", "memory")
    may("stream", "core")
    may("element", "memory")
    may("trace", "core")
    may("codec", "element")
    may("topology", "core")
    may("layout", "topology memory")
    may("placement", "layout")
    may("routing", "placement")
    may("cost", "routing")
    may("solver", "cost")
    may("plan", "placement")
    may("comm", "topology element stream trace")
    may("collective", "codec comm plan")
    may("token", "collective routing")
    may("runtime", "solver token")
    may("hybrid", "collective")
    may("recovery", "collective")
    may("checkpoint", "collective file")
    # the back ends: which others a back end stands on
    stands_on["mpi", "mpi"] = stands_on["thread", "thread"] = stands_on["cuda", "cuda"] = 1
    stands_on["nccl", "nccl"] = stands_on["nccl", "cuda"] = 1
    stands_on["c10d", "c10d"] = stands_on["c10d", "nccl"] = 1
    stands_on["peer", "peer"] = stands_on["peer", "cuda"] = stands_on["peer", "thread"] = 1
    vendor_back_end = "^(comm/(mpi|nccl|cuda|peer|c10d)[./]|trace/nvtx_|token/device_|memory/torch_)"
    back_end = vendor_back_end "|^comm/thread[./]"
    on_posix = "^(file/|comm/shared_memory|checkpoint/)"
    posix_header = "^(fcntl|unistd|pthread|dlfcn)\\.h$|^sys/"
    stored_header = "^(xxhash\\.h$|nlohmann/)"  # what only checkpoints need
    vendor_header = "^(mpi|nccl|cuda|cuda_runtime|cuda_runtime_api|hip)\\.h|^(cuda|nvtx3|hip|gloo|torch|ATen|c10|thrust|cub)/"
  }
  function may(folder, below,    names, n, i, other) {
    known[folder] = 1
    allowed[folder, folder] = 1
    n = split(below, names, " ")
    for (i = 1; i <= n; ++i) {
      allowed[folder, names[i]] = 1
      for (other in known)
        if ((names[i], other) in allowed) allowed[folder, other] = 1
    }
  }
  function report(line, reason) {
    print "include/fssdp/" FILENAME ":" line ": " reason
    failed = 1
  }
  function back_end_of(path) {  # comm/mpi.hpp and comm/mpi/mpi_call.hpp are of mpi
    return match(path, "^comm/(mpi|nccl|peer|thread|cuda|c10d)[./]") ? substr(path, 6, RLENGTH - 6) : ""
  }
  function folder_of(path) { return path ~ /\// ? substr(path, 1, index(path, "/") - 1) : "" }

  FNR == 1 {
    here = folder_of(FILENAME)
    if (here == "" && FILENAME !~ /^(all|fssdp|version)\.hpp$/)
      report(1, "only all.hpp, fssdp.hpp and version.hpp stand outside the folders")
    else if (here != "" && !(here in known)) report(1, "the folder " here " has no floor")
  }
  FNR == 401 { report(401, "over 400 lines") }

  /^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    target = $0
    sub(/^[^<"]*[<"]/, "", target)
    quoted = $0 ~ /^[^<"]*"/
    sub(/[>"].*/, "", target)
    if (target ~ /^fssdp\//) {
      sub(/^fssdp\//, "", target)
      there = folder_of(target)
      if (target == "version.hpp") next
      if (FILENAME == "version.hpp") report(FNR, "version.hpp includes only std")
      else if (here == "") {
        if (target ~ back_end || target ~ on_posix)
          report(FNR, "the umbrella includes " target ", which takes more than std")
      } else if (there == "") report(FNR, here " includes the umbrella")
      else if (here in known && !((here, there) in allowed))
        report(FNR, here " must not include " there " (" target ")")
      else if (back_end_of(target) != "" &&
               !((back_end_of(FILENAME), back_end_of(target)) in stands_on))
        report(FNR, "the back end " back_end_of(target) " is not for this header (" target ")")
    } else if (quoted) {
      report(FNR, "write \"fssdp/...\", from the include root, instead of \"" target "\"")
    } else if (target ~ vendor_header && FILENAME !~ vendor_back_end) {
      report(FNR, "<" target "> belongs into a back end of its own")
    } else if (target ~ posix_header && FILENAME !~ on_posix) {
      report(FNR, "<" target "> belongs into file/, comm/shared_memory or checkpoint")
    } else if (target ~ stored_header && here != "checkpoint") {
      report(FNR, "<" target "> belongs into checkpoint")
    }
  }
  END { exit failed }
' $headers || failed=1
for header in $headers; do
  case $header in
    *_inl.hpp)
      times=$(cat ../../src/compiled_*.cpp | grep -cF "\"fssdp/$header\"")
      [ "$times" -eq 1 ] && continue
      echo "include/fssdp/$header:1: src/compiled_*.cpp include it $times times; expected once"
      failed=1
      ;;
  esac
done
exit $failed
