// SPDX-License-Identifier: Apache-2.0
/// A process group over Gloo, made without Python, with torch 1.13 or later.
#pragma once

// What torch was built with, which its headers do not say.
#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <type_traits>

namespace c10d_tests {

using group_pointer = c10::intrusive_ptr<c10d::ProcessGroup>;
using store_pointer = c10::intrusive_ptr<c10d::Store>;

/// Torch 2 has a group around its back ends; before, Gloo's is one.
template <class Group>
[[nodiscard]] c10::intrusive_ptr<Group> group_around(
    c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo, store_pointer const& store) {
  if constexpr (std::is_base_of_v<Group, c10d::ProcessGroupGloo>) {
    return gloo;
  } else {
    auto group = c10::make_intrusive<Group>(store, gloo->getRank(), gloo->getSize());
    group->setBackend(c10::DeviceType::CPU, Group::GLOO, gloo);
    group->setDefaultBackend(Group::GLOO);
    return group;
  }
}

/// Ranks that meet in a store, over the loopback device. Returns when all have called.
[[nodiscard]] inline group_pointer gloo_group(store_pointer const& store, int rank, int size) {
  auto const patience = std::chrono::seconds{60};  // to meet
  auto options = c10d::ProcessGroupGloo::Options::create(patience);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return group_around<c10d::ProcessGroup>(
      c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options), store);
}

}  // namespace c10d_tests
