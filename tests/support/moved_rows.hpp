// SPDX-License-Identifier: Apache-2.0
/// Rows of tokens that go to their experts and come back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/token/dispatch.hpp"
#include "fssdp/token/gather_counts.hpp"
#include "support/laws.hpp"

namespace support {

/// What a rank has received, and what has come back: rows of three numbers that tell where they are
/// from.
struct moved_rows {
  std::vector<int> received;
  std::vector<int> returned;
  std::vector<std::uint64_t> counts;
  friend bool operator==(moved_rows const&, moved_rows const&) = default;
};

template <class Comm>
[[nodiscard]] moved_rows move_rows(Comm& comm, fssdp::token_counts const& counts,
                                   random_instance const& of, fssdp::row_orders const& orders = {},
                                   fssdp::token_options const& how = {}) {
  constexpr auto width = std::size_t{3};
  auto mine = std::vector<std::uint64_t>{};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(counts.experts()))
    mine.push_back(counts(comm.rank(), expert));
  auto const known = fssdp::gather_counts(comm, mine);
  auto const plan = fssdp::token_plan{known, of.where, comm.rank(), of.topo, orders};
  auto sent = std::vector<int>{};
  for (std::size_t i = 0; i < plan.sent_rows() * width; ++i)
    sent.push_back(comm.rank().value() * 1'000'000 + static_cast<int>(i));
  auto result = moved_rows{std::vector<int>(plan.received_rows() * width, -1),
                           std::vector<int>(sent.size(), -1),
                           {known.values().begin(), known.values().end()}};
  auto const view = [](auto& rows) {
    using T = std::remove_reference_t<decltype(rows[0])>;
    return fssdp::rows_view<T>{rows.data(), rows.size() / width, width};
  };
  fssdp::dispatch(comm, plan, view(std::as_const(sent)), view(result.received), how);
  fssdp::combine(comm, plan, view(std::as_const(result.received)), view(result.returned), how);
  fssdp::synchronize(comm);
  return result;
}

}  // namespace support
