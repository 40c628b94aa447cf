#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A test program beside which libraries print, too.
# usage: noisy_list.sh PROGRAM ARGUMENT...: what that prints, among lines of others
#        noisy_list.sh FILE: lists the test cases of two.cpp as Catch2 does, in the form asked for
echo "[1700000000.000000] [host:1:0] ucp_context.c:1 UCX  WARN  transport 'x' is not available; [a|b"
echo "[1700000000.000000] [host:1:0] uct_md.c:1 UCX  ERROR on the other stream" >&2
if [ -x "$1" ]; then
  "$@"
  result=$?
  echo 'a last word'
  exit $result
fi
case $* in
  *xml*)
    echo '<?xml version="1.0" encoding="UTF-8"?>'
    echo '<MatchingTests>'
    for named in '3 plain [a], b; \ &amp; "c"' '4 two of a kind - int' '4 two of a kind - S&lt;1, 2>'; do
      printf '  <TestCase>\n    <Name>%s</Name>\n    <ClassName/>\n    <Tags>[x]</Tags>\n' "${named#* }"
      printf '    <SourceInfo>\n      <File>%s</File>\n      <Line>%s</Line>\n    </SourceInfo>\n' \
        "$1" "${named%% *}"
      echo '  </TestCase>'
    done
    echo '</MatchingTests>' ;;
  *)
    printf 'plain [a], b; \\ & "c"\t@%s:3\n' "$1"
    printf 'two of a kind - int\t@%s:4\ntwo of a kind - S<1, 2>\t@%s:4\n' "$1" "$1" ;;
esac
