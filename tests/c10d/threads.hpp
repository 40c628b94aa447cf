// SPDX-License-Identifier: Apache-2.0
/// Ranks that are threads of one process, each with groups over Gloo.
#pragma once

#include "c10d/gloo_group.hpp"  // ahead of torch's own headers

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <cstddef>
#include <exception>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/core/index.hpp"

namespace c10d_tests {

/// Makes groups of the same ranks, which all call it together.
class group_maker {
 public:
  group_maker(store_pointer store, int rank, int size, std::vector<group_pointer>& made)
      : store_{std::move(store)}, rank_{rank}, size_{size}, made_{&made} {}

  [[nodiscard]] fssdp::rank_id rank() const { return fssdp::rank_id{rank_}; }
  [[nodiscard]] group_pointer operator()() {
    auto const name = "group " + std::to_string(made_->size());
    made_->push_back(
        gloo_group(c10::make_intrusive<c10d::PrefixStore>(name, store_), rank_, size_));
    return made_->back();
  }

 private:
  store_pointer store_;
  int rank_;
  int size_;
  std::vector<group_pointer>* made_;
};

/// Calls work(make_group) on every rank, each in a thread of its own; [rank] what it has thrown.
/// Groups are there until all have ended: what one waits for may be gone when another has failed.
template <class Work>
[[nodiscard]] std::vector<std::exception_ptr> fallout_of(int ranks, Work const& work) {
  auto const store = c10::make_intrusive<c10d::HashStore>();
  auto groups = std::vector<std::vector<group_pointer>>(static_cast<std::size_t>(ranks));
  auto thrown = std::vector<std::exception_ptr>(groups.size());
  auto threads = std::vector<std::thread>{};
  for (std::size_t rank = 0; rank < groups.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        work(group_maker{store, static_cast<int>(rank), ranks, groups[rank]});
      } catch (...) {
        thrown[rank] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  return thrown;
}

/// The same; throws what the lowest rank has thrown.
template <class Work>
void on_groups(int ranks, Work const& work) {
  for (auto const& thrown : fallout_of(ranks, work))
    if (thrown) std::rethrow_exception(thrown);
}

/// What work(make_group) returns: [rank].
template <class Work>
[[nodiscard]] auto results_of(int ranks, Work const& work) {
  auto results =
      std::vector<std::invoke_result_t<Work const&, group_maker>>(static_cast<std::size_t>(ranks));
  on_groups(ranks, [&](group_maker make) {
    auto const rank = make.rank().index();
    results[rank] = work(std::move(make));
  });
  return results;
}

}  // namespace c10d_tests
