// SPDX-License-Identifier: Apache-2.0
/// Runs the ranks of a host in threads of this process.
#pragma once

#include <future>
#include <type_traits>
#include <vector>

#include "fssdp/core/index.hpp"

/// Calls function(comm) for every rank, each in a thread of its own; [rank] what it will return or
/// throw. The host must outlive the futures, which wait for the threads.
template <class Host, class Function>
[[nodiscard]] auto on_all_ranks(Host& host, Function function) {
  using communicator = decltype(host.connect(fssdp::rank_id{}));
  using result = std::invoke_result_t<Function const&, communicator&>;
  auto ranks = std::vector<std::future<result>>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(host.ranks()))
    ranks.push_back(std::async(std::launch::async, [&host, function, rank] {
      auto comm = host.connect(rank);
      return function(comm);
    }));
  return ranks;
}
