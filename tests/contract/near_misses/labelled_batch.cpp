// SPDX-License-Identifier: Apache-2.0
/// A batch whose label(batch_label) has a wrong signature; LACKS says which.
#include <cstdint>

#include "fssdp/comm/batch.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
#if LACKS == 1
  void label() {}
#elif LACKS == 2
  void label(std::uint64_t, int) {}
#elif LACKS == 3
  void label(fssdp::batch_label&) {}
#else
  void label(fssdp::batch_label const&) {}
#endif
};

void call(near_miss& batch) { fssdp::set_label(batch, {}); }
