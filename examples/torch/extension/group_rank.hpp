// SPDX-License-Identifier: Apache-2.0
/// A rank of a process group of torch, without a header of torch: one file alone has to read those
/// of c10d, which takes a compiler longer than all the rest.
#pragma once

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
  [[nodiscard]] virtual fssdp::exchange_counts const& counts() const = 0;
  virtual void reset_counts() = 0;
};

/// This rank of the group that torch knows by a name (`group.group_name`).
/// @throws fssdp::argument_error if there is no such group, or it has no back end for the host
[[nodiscard]] std::unique_ptr<group_rank> join_group(std::string const& name,
                                                     std::chrono::milliseconds deadline);

}  // namespace python
