// SPDX-License-Identifier: Apache-2.0
/// The back end of a process group of torch, in torch 1.13 and later.
#pragma once

#include "fssdp/memory/torch_tensor.hpp"  // ahead of torch's own headers

#include <c10/core/DeviceType.h>
#include <c10/util/Exception.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "fssdp/core/error.hpp"

namespace fssdp::detail {

/// The text of an error of torch, without the stack trace.
[[nodiscard]] inline std::string c10d_text(std::exception const& error) {
  auto const* const of_torch = dynamic_cast<c10::Error const*>(&error);
  return of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
}

/// The back end for a kind of device. Since torch 2 a group has one for each kind; before, it is
/// one itself.
/// @throws argument_error if it has none for that kind
template <class Group>
[[nodiscard]] auto c10d_backend_of(c10::intrusive_ptr<Group> const& group, c10::DeviceType device) {
  require(group != nullptr, "c10d: no process group; expected one");
  if constexpr (requires { group->getBackend(device); }) {
    try {
      return group->getBackend(device);
    } catch (c10::Error const& error) {
      throw argument_error{text(
          "c10d: a group without a back end for tensors on ", c10::DeviceTypeName(device, true),
          "; expected one, as Gloo's for cpu, or NCCL's for cuda: ", c10d_text(error))};
    }
  } else {
    return group;
  }
}

/// c10d::Backend, or before torch 2 c10d::ProcessGroup.
using c10d_backend = std::remove_reference_t<decltype(*c10d_backend_of(
    std::declval<c10::intrusive_ptr<c10d::ProcessGroup> const&>(), c10::DeviceType::CPU))>;

/// Calls name(), which begins sends and receives, and starts all of them together where the back
/// end can do that. NCCL needs it: otherwise it connects each pair of ranks separately, and may
/// wait forever.
/// @returns the work of all of them; null if the back end cannot
template <class Backend, class Name>
[[nodiscard]] c10::intrusive_ptr<c10d::Work> c10d_coalesced(Backend& backend, Name name) {
  if constexpr (requires { backend.supportsCoalescing(); }) {
    if (backend.supportsCoalescing()) {
      backend.startCoalescing();
      try {
        name();
      } catch (...) {
        try {
          (void)backend.endCoalescing();   // it must not stay open
        } catch (std::exception const&) {  // the first error is the one to report
        }
        throw;
      }
      return backend.endCoalescing();
    }
  }
  name();
  return {};
}

}  // namespace fssdp::detail
