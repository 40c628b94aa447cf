// SPDX-License-Identifier: Apache-2.0
/// Sums and conversions in the order of a communicator's stream: at once where its memory is the
/// host's.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>

#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/element/device_conversion.hpp"
#include "fssdp/element/device_sum.hpp"
#include "fssdp/element/element_work.hpp"
#include "fssdp/memory/copy_bytes.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/stream/stream.hpp"

namespace fssdp::detail {

/// What a device is to sum, without the operands yet.
[[nodiscard]] inline device_sum device_sum_of(element_sum const& with, element_range const& out,
                                              double scale = 1,
                                              write_mode how = write_mode::overwrite) {
  auto sum = device_sum{};
  sum.partials = with.partials;
  sum.results = with.results;
  sum.how = how;
  sum.scale = scale;
  sum.elements = out.count;
  sum.out = out.data;
  return sum;
}
[[nodiscard]] inline device_sum::operand operand_of(summand const& of) {
  return of.summed != nullptr ? device_sum::operand{of.summed, true}
                              : device_sum::operand{of.partial, false};
}

/// Forms a sum.
/// @pre a device can sum so many at once (most_operands)
inline void sum_on(communicator_ref const& comm, element_sum const& with,
                   std::span<summand const> summands, element_range const& out, double scale = 1,
                   write_mode how = write_mode::overwrite) {
  if (comm.in_host_memory()) {
    with.on_host(with, summands, out.data, out.count, scale, how);
    return;
  }
  if (out.count == 0) return;
  auto sum = device_sum_of(with, out, scale, how);
  sum.count = summands.size();
  std::ranges::transform(summands, sum.operands.begin(), operand_of);
  comm.sum(sum);
}

/// Copies bytes.
inline void copy_on(communicator_ref const& comm, std::span<std::byte const> from,
                    std::span<std::byte> to) {
  if (comm.in_host_memory())
    copy_bytes(to, from);
  else
    comm.copy(to, from);
}

/// Converts elements, or copies those whose type stays the same.
inline void convert_on(communicator_ref const& comm, element_conversion const& with,
                       element_range const& from, element_range const& to) {
  if (!with.changes_type()) {
    if (from.count != 0) copy_on(comm, from.bytes(), to.bytes());
  } else if (comm.in_host_memory()) {
    with.on_host(with, from.data, to.data, from.count);
  } else if (from.count != 0) {
    comm.convert(device_conversion{.from_type = with.from_type,
                                   .to_type = with.to_type,
                                   .elements = from.count,
                                   .from = from.data,
                                   .to = to.data});
  }
}

}  // namespace fssdp::detail
