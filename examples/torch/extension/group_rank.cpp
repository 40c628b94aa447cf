// SPDX-License-Identifier: Apache-2.0
#include "group_rank.hpp"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "fssdp/comm/c10d/c10d_communicator.hpp"
#include "fssdp/core/error.hpp"

namespace python {
namespace {

class c10d_rank final : public group_rank {
 public:
  c10d_rank(c10::intrusive_ptr<c10d::ProcessGroup> group, std::chrono::milliseconds deadline)
      : bare_{std::move(group), {.deadline = deadline}} {}

  fssdp::communicator_ref communicator() override { return fssdp::communicator_ref{counted_}; }
  fssdp::exchange_counts const& counts() const override { return counted_.counts(); }
  void reset_counts() override { counted_.reset(); }

 private:
  fssdp::c10d_communicator bare_;
  fssdp::counting<fssdp::c10d_communicator> counted_{bare_};
};

c10::intrusive_ptr<c10d::ProcessGroup> group_of(std::string const& name) {
  try {
    return c10d::resolve_process_group(name);
  } catch (c10::Error const&) {
    throw fssdp::argument_error{fssdp::detail::text("Communicator: no process group '", name,
                                                    "'; expected one that is initialized")};
  }
}

}  // namespace

std::unique_ptr<group_rank> join_group(std::string const& name,
                                       std::chrono::milliseconds deadline) {
  return std::make_unique<c10d_rank>(group_of(name), deadline);
}

}  // namespace python
