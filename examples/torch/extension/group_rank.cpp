// SPDX-License-Identifier: Apache-2.0
#include "group_rank.hpp"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "fssdp/comm/c10d/c10d_communicator.hpp"
#include "fssdp/comm/c10d/c10d_device_communicator.hpp"
#include "fssdp/core/error.hpp"

namespace python {
namespace {

template <class Comm>
class c10d_rank final : public group_rank {
 public:
  template <class... Arguments>
  explicit c10d_rank(Arguments&&... arguments) : bare_{std::forward<Arguments>(arguments)...} {}

  fssdp::communicator_ref communicator() override { return fssdp::communicator_ref{counted_}; }
  c10::Device device() const override {
    if constexpr (requires { bare_.device(); })
      return bare_.device();
    else
      return c10::kCPU;
  }
  void synchronize() override { fssdp::synchronize(counted_); }
  fssdp::exchange_counts const& counts() const override { return counted_.counts(); }
  void reset_counts() override { counted_.reset(); }

 private:
  Comm bare_;
  fssdp::counting<Comm> counted_{bare_};
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

std::unique_ptr<group_rank> join_group(group_member const& as) {
  using fssdp::c10d_device_communicator;
  auto const options = fssdp::c10d_options{.deadline = as.deadline};
  if (as.device.is_cpu() && !as.by_operators)
    return std::make_unique<c10d_rank<fssdp::c10d_communicator>>(group_of(as.group), options);
  return std::make_unique<c10d_rank<c10d_device_communicator>>(group_of(as.group), as.device,
                                                               options);
}

}  // namespace python
