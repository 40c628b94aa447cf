// SPDX-License-Identifier: Apache-2.0
/// Satisfies the concept of a trace sink, except for one thing: LACKS says which.
#include "fssdp/trace/trace.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
#if LACKS == 1  // no open_range
#elif LACKS == 2
  struct open_range {
    open_range() = delete;
  };
#elif LACKS == 3
  struct open_range {
    ~open_range() {}
  };
#else
  struct open_range {};
#endif

#if LACKS == 1
  int open(fssdp::traced_work const&) noexcept { return 0; }
#elif LACKS == 2
  open_range open(fssdp::traced_work const&) noexcept;
#elif LACKS == 4  // no open
#elif LACKS == 5
  open_range open(fssdp::traced_work const&) { return {}; }
#elif LACKS == 6
  int open(fssdp::traced_work const&) noexcept { return 0; }
#elif LACKS == 7
  open_range open() noexcept { return {}; }
#elif LACKS == 8
  open_range open(fssdp::traced_work&) noexcept { return {}; }
#else
  open_range open(fssdp::traced_work const&) noexcept { return {}; }
#endif

#if LACKS == 1
  void close(int, fssdp::traced_work const&) noexcept {}
#elif LACKS == 9  // no close
#elif LACKS == 10
  void close(open_range const&, fssdp::traced_work const&) {}
#elif LACKS == 11
  void close(open_range const&) noexcept {}
#elif LACKS == 12
  void close(open_range&, fssdp::traced_work const&) noexcept {}
#else
  void close(open_range const&, fssdp::traced_work const&) noexcept {}
#endif
};

void use(near_miss& sink) {
  auto const range = fssdp::trace_range<near_miss>{&sink, fssdp::compute_track, "work"};
}
