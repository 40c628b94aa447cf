// SPDX-License-Identifier: Apache-2.0
/// A rank of a process group of torch, without a header of c10d: one file alone has to read those,
/// which takes a compiler longer than all the rest.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <memory>
#include <string>

#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/comm/counting.hpp"

namespace python {

/// What is exchanged through it is counted.
class group_rank {
 public:
  group_rank() = default;
  group_rank(group_rank const&) = delete;
  group_rank& operator=(group_rank const&) = delete;
  virtual ~group_rank() = default;

  /// Valid as long as this is.
  [[nodiscard]] virtual fssdp::communicator_ref communicator() = 0;
  /// The device of its tensors, with its index.
  [[nodiscard]] virtual c10::Device device() const = 0;
  /// Waits for all that it has put on torch's current stream.
  virtual void synchronize() = 0;
  [[nodiscard]] virtual fssdp::exchange_counts const& counts() const = 0;
  virtual void reset_counts() = 0;
};

/// Which rank of which group, and whose tensors.
struct group_member {
  std::string group;               ///< that torch knows by this name (`group.group_name`)
  c10::Device device = c10::kCPU;  ///< without a number, the one that is current
  /// By torch's operators and streams, as on any device: where the device is not the CPU, always.
  bool by_operators = false;
  std::chrono::milliseconds deadline = std::chrono::seconds{60};
};

/// This rank of a group.
/// @throws fssdp::argument_error if there is no such group, or it has no back end for such tensors
[[nodiscard]] std::unique_ptr<group_rank> join_group(group_member const& as);

}  // namespace python
