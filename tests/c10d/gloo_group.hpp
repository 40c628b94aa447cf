// SPDX-License-Identifier: Apache-2.0
/// Process groups that are made without Python, with torch 1.13 or later.
#pragma once

#include "fssdp/comm/c10d/c10d_backend.hpp"  // ahead of torch's own headers

// What torch was built with, which its headers do not say.
#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace c10d_tests {

using group_pointer = c10::intrusive_ptr<c10d::ProcessGroup>;
using store_pointer = c10::intrusive_ptr<c10d::Store>;
using backend_pointer = c10::intrusive_ptr<fssdp::detail::c10d_backend>;

/// Torch 2.15 sometimes ends a program by abort when it destroys what it has of Gloo: the tests end
/// before.
inline int const nothing_is_destroyed = on_exit(
    [](int status, void*) {
      std::fflush(nullptr);
      std::_Exit(status);
    },
    nullptr);

/// A group with a back end for the host. Torch 2 has it around the back end, before it is one.
template <class Group = c10d::ProcessGroup, class Backend = fssdp::detail::c10d_backend>
[[nodiscard]] c10::intrusive_ptr<Group> group_around(c10::intrusive_ptr<Backend> backend,
                                                     store_pointer const& store) {
  if constexpr (std::is_base_of_v<Group, Backend>) {
    return backend;
  } else {
    auto const type = Group::strToBackendType(backend->getBackendName());
    auto group = c10::make_intrusive<Group>(store, backend->getRank(), backend->getSize());
    group->setBackend(c10::DeviceType::CPU, type, backend);
    group->setDefaultBackend(type);
    return group;
  }
}

/// Ranks that meet in a store, over the loopback device. Returns when all have called.
[[nodiscard]] inline group_pointer gloo_group(store_pointer const& store, int rank, int size) {
  auto const patience = std::chrono::seconds{60};  // to meet
  auto options = c10d::ProcessGroupGloo::Options::create(patience);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return group_around(
      backend_pointer{c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options)},
      store);
}

}  // namespace c10d_tests
