// SPDX-License-Identifier: Apache-2.0
/// The processes of a test program, started by processes.sh, that meet in a file: all of them run the
/// same test cases and compare the same results.
#pragma once

#include "c10d/gloo_group.hpp"  // ahead of torch's own headers

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "catch.hpp"

namespace c10d_tests {

class process_group {
 public:
  /// @param where the file
  process_group(int rank, int size, char const* where)
      : rank_{rank}, size_{size}, store_{c10::make_intrusive<c10d::FileStore>(where, size)} {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// The first processes, which all call it, as a group that nobody else has. Kept to the end: what
  /// one waits for may be gone when another has failed.
  [[nodiscard]] group_pointer first(int count) {
    auto& made = groups_[count];
    auto const name = std::to_string(made.size()) + ". group of " + std::to_string(count);
    made.push_back(gloo_group(c10::make_intrusive<c10d::PrefixStore>(name, store_), rank_, count));
    return made.back();
  }
  /// The sum over all processes.
  [[nodiscard]] long total(long here) {
    auto const name = "sum " + std::to_string(sums_++);
    (void)store_->add(name, here);
    auto const come = store_->add(name + " come", 1);
    if (come == size_) store_->set(name + " done", std::vector<std::uint8_t>{1});
    store_->wait({name + " done"}, std::chrono::seconds{120});
    return static_cast<long>(store_->add(name, 0));
  }

 private:
  int rank_;
  int size_;
  store_pointer store_;
  std::map<int, std::vector<group_pointer>> groups_;  // by their sizes
  int sums_ = 0;
};

/// Those of this program; null if it is alone.
[[nodiscard]] inline process_group* processes() {
  static auto* const all = [] {
    auto const* const rank = std::getenv("FSSDP_TEST_RANK");
    return rank == nullptr
               ? nullptr
               : new process_group{std::atoi(rank), std::atoi(std::getenv("FSSDP_TEST_RANKS")),
                                   std::getenv("FSSDP_TEST_STORE")};
  }();
  return all;
}

}  // namespace c10d_tests
