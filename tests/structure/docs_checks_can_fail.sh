#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Plants one fault of each kind into headers, guides, tests and figures: check_docs.sh,
# check_links.sh, check_guides.sh and figures.sh must name them all, and nothing else.
# usage: docs_checks_can_fail.sh SOURCE_DIR SCRATCH_DIR
set -eu
checks=$1/tests/structure
rm -rf "$2"
mkdir -p "$2/include/fssdp/comm" "$2/guides" "$2/tests/guides"
cp "$checks/../guides/extract.sh" "$2/tests/guides/"

cat >"$2/include/fssdp/comm/planted.hpp" <<'HEADER'
// planted faults
#pragma once

namespace fssdp {

class bare_class {
 public:
  int x() const { return 0; }
};

struct documented_elsewhere;

template <class T>
concept bare_concept = requires(T x) {
  x.f();
};

enum class bare_enum { a, b };

using bare_alias = int;

inline constexpr int bare_value = 1;

template <class T>
requires std::is_same_v<T, int>
[[nodiscard]] int bare_function(
    T x) {
  return x;
}

/// It has a block, and says nothing of its cost.
template <communicator Comm>
void costless(Comm& comm, int x) {
  comm.barrier(x);
}

/// It has a block.
class documented {
 public:
  explicit documented(communicator auto& comm);
  /// Waits.
  template <class Comm>
  void costless_member(Comm& comm);

 private:
  template <class Comm>
  void internal(Comm& comm);
};

namespace detail {

class needs_none {};

}  // namespace detail

/// It is not the doc block of what follows.

void bare_after_a_gap();

}  // namespace fssdp
HEADER
cat >"$2/include/fssdp/comm/right.hpp" <<'HEADER'
// nothing is wrong here
#pragma once

namespace fssdp {

/// What there are two of.
/// @cost one message
template <communicator Comm>
void twice(Comm& comm);
template <communicator Comm>
void twice(Comm& comm, int times);

template <communicator Comm>
void twice(Comm& comm) {
  twice(comm, 2);
}

/// Two names for one thing.
using left = int;
using right = int;

/// It takes whatever has that.
template <class T>
requires requires(T const& x) { x.f(); }
int f(T const& x) {
  return x.f();
}

}  // namespace fssdp

namespace fssdp::detail {

void needs_none_either();

}  // namespace fssdp::detail
HEADER
cat >"$2/guides/there.md" <<'GUIDE'
# One
## Two words, and `code`
## Two words, and `code`
[up](../include), [here](#one), [twice](there.md#two-words-and-code-1), `[not](a-link.md)`
[away](https://example.org/not-looked-at)
GUIDE
cat >"$2/README.md" <<'GUIDE'
[a guide](guides/there.md#two-words-and-code), [broken](guides/gone.md) and
[broken](guides/there.md#three), [broken](#nothing)

```
[not](a-link.md)
```
    [not](a-link.md)
GUIDE
cat >"$2/guides/code.md" <<'GUIDE'
```cpp
int main() {}
```
```cpp
included();
```
```sh
echo "no C++"
```
```cpp
forgotten();
```
GUIDE
cat >"$2/tests/planted.cpp" <<'TEST'
#include "guides/guides/code.md/2.inc"
#include "guides/guides/code.md/4.inc"
TEST

expect() {  # expect CHECK TEXT...: CHECK fails and prints a line with each text, and no other line
  check=$1
  shift
  if found=$(sh "$checks/$check" "$scratch" "$scratch/blocks" 2>&1); then
    echo "$check passes on planted faults" >&2
    exit 1
  fi
  echo "$found"
  for text in "$@"; do
    echo "$found" | grep -qF "$text" || { echo "$check does not name: $text" >&2; exit 1; }
  done
  [ "$(echo "$found" | wc -l)" -eq $# ] || { echo "$check names more than that" >&2; exit 1; }
}
scratch=$2
expect check_docs.sh \
  'planted.hpp:6: the class bare_class has no doc block' \
  'planted.hpp:13: the concept bare_concept has no doc block' \
  'planted.hpp:18: the enum bare_enum has no doc block' \
  'planted.hpp:20: the alias bare_alias has no doc block' \
  'planted.hpp:22: the value bare_value has no doc block' \
  'planted.hpp:24: the function bare_function has no doc block' \
  'planted.hpp:32: costless takes a communicator, and has no @cost' \
  'planted.hpp:42: documented::costless_member takes a communicator, and has no @cost' \
  'planted.hpp:58: the function bare_after_a_gap has no doc block'
expect check_links.sh \
  'README.md:1: a link leads to guides/gone.md, which is not there' \
  'README.md:2: a link leads to the heading #three of guides/there.md, which is not there' \
  'README.md:2: a link leads to the heading #nothing of README.md, which is not there'
expect check_guides.sh \
  'guides/code.md:11: no test includes this block: expected #include "guides/guides/code.md/3.inc"' \
  'tests include "guides/guides/code.md/4.inc", and the guide has no such block'

mkdir -p "$2/bench"
cp "$checks/../figures.sh" "$2/tests/"
printf 'It takes **1,012 us**, or\n0.13 of 4.\n' >"$2/guides/figures.md"
cat >"$2/bench/figures.txt" <<'FIGURES'
run printf 'time 1012.4 us\nshare 0.125\nof 3\n'
in guides/figures.md
says takes [1,012] us, or [0.13] of [4]
exact time ([0-9.]+) us
exact share ([0-9.]+)
exact of ([0-9]+)
exact of ([0-9]+)
says in [4] seconds
about seconds ([0-9]+)
needs false
run exit 3
says or [0.13] of
about share ([0-9.]+)
FIGURES
if found=$(sh "$2/tests/figures.sh" 2>&1); then
  echo "figures.sh passes on planted faults" >&2
  exit 1
fi
echo "$found"
for text in '1012 claimed       1012 measured  same' '0.13 claimed       0.13 measured  same' \
  '4 claimed          3 measured  DIFFERS' 'figures.txt:7: expected one more figure' \
  'figures.txt:8: guides/figures.md does not say: in 4 seconds' \
  'figures.txt:9: the command does not print: seconds' 'NOT RUN, as this fails: false' \
  '6 figures, 1 differ, 1 commands not run'; do
  echo "$found" | grep -qF "$text" || { echo "figures.sh does not print: $text" >&2; exit 1; }
done
rm -rf "$2"
