// SPDX-License-Identifier: Apache-2.0
/// Sums and conversions in the order of a communicator's stream; at once where its memory is host
/// memory.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>

#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/element/device_conversions.hpp"
#include "fssdp/element/device_sums.hpp"
#include "fssdp/element/element_work.hpp"
#include "fssdp/memory/copy_bytes.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/stream/stream.hpp"

namespace fssdp::detail {

/// How operands are summed and what is done with the result.
struct sum_rule {
  element_sum with;
  double scale = 1;
  write_mode how = write_mode::overwrite;
};

/// Collects sums that do not depend on one another: a host forms each at once, a device many in one
/// launch. `flush` forms those that are still pending.
class sum_batch {
 public:
  explicit sum_batch(communicator_ref const& comm) : comm_{comm} {}

  [[nodiscard]] communicator_ref const& comm() const { return comm_; }

  /// @pre at most most_operands summands where the sum is formed on a device
  void add(sum_rule const& rule, std::span<summand const> summands, element_range const& out) {
    if (comm_.in_host_memory()) {
      rule.with.on_host(rule.with, summands, out.data, out.count, rule.scale, rule.how);
    } else if (out.count != 0) {
      begin(rule, summands.size(), out);
      for (auto const& each : summands) add(operand_of(each));
    }
  }
  /// Begins a sum on a device; its operands follow.
  void begin(sum_rule const& rule, std::size_t operands, element_range const& out,
             payload_code code = {}) {
    auto const is_alike = held_.partials == rule.with.partials &&
                          held_.results == rule.with.results && held_.how == rule.how &&
                          held_.scale == rule.scale && held_.code == code;
    if (!is_alike || !held_.has_room_for(operands)) flush();
    held_.partials = rule.with.partials;
    held_.results = rule.with.results;
    held_.how = rule.how;
    held_.scale = rule.scale;
    held_.code = code;
    held_.begin(out.data, out.count);
  }
  void add(device_sums::operand const& operand) { held_.add(operand); }
  [[nodiscard]] static device_sums::operand operand_of(summand const& of) {
    return of.summed != nullptr ? device_sums::operand{of.summed, device_sums::kind::sum}
                                : device_sums::operand{of.partial, device_sums::kind::partial};
  }
  void flush() {
    if (held_.count != 0) comm_.sum(held_);
    held_.clear();
  }

 private:
  communicator_ref comm_;
  device_sums held_;
};

/// Forms the sums that add(sum_batch&) adds to a batch.
template <class Add>
void form_sums(communicator_ref const& comm, Add add) {
  auto batch = sum_batch{comm};
  add(batch);
  batch.flush();
}

/// Copies bytes.
inline void copy_on(communicator_ref const& comm, std::span<std::byte const> from,
                    std::span<std::byte> to) {
  if (comm.in_host_memory())
    copy_bytes(to, from);
  else
    comm.copy(to, from);
}

/// Collects conversions that are independent: none reads what another one writes. A host makes each
/// at once, a device many in one launch. `flush` makes those that are still pending.
class conversion_batch {
 public:
  explicit conversion_batch(communicator_ref const& comm) : comm_{comm} {}

  /// Converts elements, or copies them where the type stays the same.
  void add(element_conversion const& with, element_range const& from, element_range const& to) {
    if (!with.changes_type()) {
      if (from.count != 0) copy_on(comm_, from.bytes(), to.bytes());
    } else if (comm_.in_host_memory()) {
      with.on_host(with, from.data, to.data, from.count);
    } else if (from.count != 0) {
      auto const is_alike = held_.from_type == with.from_type && held_.to_type == with.to_type;
      if (!is_alike || held_.count == device_conversions::most) flush();
      held_.from_type = with.from_type;
      held_.to_type = with.to_type;
      held_.add({from.data, to.data, from.count});
    }
  }
  void flush() {
    if (held_.count != 0) comm_.convert(held_);
    held_.count = 0;
  }

 private:
  communicator_ref comm_;
  device_conversions held_;
};

/// Makes the conversions that add(conversion_batch&) adds to a batch.
template <class Add>
void make_conversions(communicator_ref const& comm, Add add) {
  auto batch = conversion_batch{comm};
  add(batch);
  batch.flush();
}

}  // namespace fssdp::detail
