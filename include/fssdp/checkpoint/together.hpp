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

/// What a rank reports to the others about its work.
template <class Result>
struct rank_report {
  Result result{};
  std::array<char, 512> failure{};  // the text of its error; empty: none
};

/// Waits for all ranks before this one throws an exception that all throw: a rank that is still in
/// the exchange would otherwise only see that a peer has left.
template <communicator Comm>
void part_together(Comm& comm) {
  try {
    auto all = std::vector<char>(static_cast<std::size_t>(comm.size()));
    all_gather(comm, std::vector<char>(1), all);
  } catch (transport_error const&) {
    return;  // some rank failed here: the others know what this one knows, and have continued
  }
}

/// Calls work() on every rank, and returns the results of all: [ranks].
/// @pre work() does not communicate
/// @cost one all_gather of 512 bytes; another one if it fails
/// @throws the exception of work() on the rank where it failed; on the other ranks a file_error
///         that names that rank and has its text; transport errors
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
