// SPDX-License-Identifier: Apache-2.0
/// Work that succeeds on all ranks, or fails on all.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <string>
#include <type_traits>
#include <vector>

#include "fssdp/collective/all_gather.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp::detail {

/// What a rank tells the others about its work.
template <class Result>
struct rank_report {
  Result result{};
  std::array<char, 512> failure{};  // a text; empty: none
};

/// Waits for all ranks before this one leaves by an exception that all throw: who is still in the
/// exchange behind them would only see that somebody has left.
template <communicator Comm>
void part_together(Comm& comm) {
  try {
    auto all = std::vector<char>(static_cast<std::size_t>(comm.size()));
    all_gather(comm, std::vector<char>(1), all);
  } catch (transport_error const&) {
    return;  // the others have gone on, and know as much
  }
}

/// Calls work() on every rank, and tells all what it returned: [ranks].
/// @pre work() communicates with nobody
/// @cost one all_gather of half a KiB; another one if it fails
/// @throws where work() threw, that; on the other ranks a file_error that names the rank and has
///         its text; transport errors
template <communicator Comm, class Work>
[[nodiscard]] auto together(Comm& comm, char const* caller, Work work) {
  using result = decltype(work());
  static_assert(std::is_trivially_copyable_v<result>);
  auto mine = rank_report<result>{};
  auto thrown = std::exception_ptr{};
  try {
    mine.result = work();
  } catch (...) {
    thrown = std::current_exception();
    auto const said = what(thrown);
    auto const told = said.empty() ? std::string{"an error without a text"} : said;
    std::copy_n(told.begin(), std::min(told.size(), mine.failure.size() - 1), mine.failure.begin());
  }
  auto all = std::vector<rank_report<result>>(static_cast<std::size_t>(comm.size()));
  all_gather(comm, std::vector{mine}, all);
  auto const failed = std::ranges::find_if(
      all, [](rank_report<result> const& report) { return report.failure[0] != '\0'; });
  if (failed != all.end()) {
    part_together(comm);
    if (thrown) std::rethrow_exception(thrown);
    throw file_error{text(caller, ": rank ", failed - all.begin(), ": ", failed->failure.data())};
  }
  auto results = std::vector<result>{};
  for (auto const& report : all) results.push_back(report.result);
  return results;
}

}  // namespace fssdp::detail
