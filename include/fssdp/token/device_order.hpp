// SPDX-License-Identifier: Apache-2.0
/// Sorts the choices of a router by expert on a device, with Thrust.
#pragma once

#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/scatter.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/element/host_device.hpp"

namespace fssdp {

/// An expert_order as a view of device memory of the caller. Rows are sorted by expert, stably;
/// choice c is the (c % per_token)-th expert of token c / per_token.
struct device_expert_order {
  std::span<std::uint64_t> counts;     ///< [experts]: rows of each
  std::span<std::uint32_t> row_of;     ///< [choices]: the row of a choice
  std::span<std::uint32_t> choice_of;  ///< [rows]: the choice of a row
  std::span<int> experts;              ///< [rows]: ascending
  std::size_t per_token = 1;

  [[nodiscard]] std::size_t rows() const { return row_of.size(); }
  [[nodiscard]] std::size_t tokens() const { return row_of.size() / per_token; }
};

namespace detail {

struct number_of {
  FSSDP_HOST_DEVICE int operator()(expert_id expert) const { return expert.value(); }
};

struct element_at {
  std::uint32_t const* list;
  FSSDP_HOST_DEVICE std::uint32_t operator()(std::uint32_t position) const {
    return list[position];
  }
};

/// @throws argument_error unless the sizes of the lists of an order fit together
inline void check_order(char const* caller, device_expert_order const& order) {
  auto const rows = order.row_of.size();
  require(order.choice_of.size() == rows && order.experts.size() == rows, caller,
          ": row_of has room for ", rows, " choices, choice_of for ", order.choice_of.size(),
          " and experts for ", order.experts.size(), "; expected equal sizes");
  require(order.per_token >= 1 && rows % order.per_token == 0, caller, ": ", rows,
          " choices; expected a multiple of ", order.per_token, " per token");
}

}  // namespace detail

/// Fills an order from the experts that the router has chosen.
///
/// @param on an execution policy of Thrust: on CUDA with the stream, as in
///           thrust::cuda::par_nosync(allocator).on(stream); then the host does not wait
/// @param choices [tokens * per_token]
/// @pre choices are from 0 to experts - 1; this is not checked, as they are on a device. All memory
///      can be used by the policy, and lives until the work is done
/// @cost one stable sort by key; temporary memory of about two numbers per choice, from the
///       allocator of the policy
/// @throws argument_error if the sizes of the lists do not fit together
template <class Policy>
void order_by_expert(Policy const& on, std::span<expert_id const> choices,
                     device_expert_order const& order) {
  constexpr auto caller = "order_by_expert";
  detail::check_order(caller, order);
  detail::require(choices.size() == order.rows(), caller, ": ", choices.size(),
                  " choices; expected ", order.rows());
  detail::require(choices.size() <= std::numeric_limits<std::uint32_t>::max(), caller, ": ",
                  choices.size(), " choices; expected less than 2^32");
  auto const rows = order.rows();
  auto* const experts = order.experts.data();
  auto* const choice_of = order.choice_of.data();
  auto* const counts = order.counts.data();
  thrust::transform(on, choices.data(), choices.data() + rows, experts, detail::number_of{});
  thrust::sequence(on, choice_of, choice_of + rows);
  thrust::stable_sort_by_key(on, experts, experts + rows, choice_of);
  auto const numbers = thrust::counting_iterator<std::uint32_t>{0};
  thrust::scatter(on, numbers, numbers + static_cast<std::ptrdiff_t>(rows), choice_of,
                  order.row_of.data());
  auto const first = thrust::counting_iterator<int>{0};
  thrust::upper_bound(on, experts, experts + rows, first,
                      first + static_cast<std::ptrdiff_t>(order.counts.size()), counts);
  thrust::adjacent_difference(on, counts, counts + order.counts.size(), counts);
}

/// Reorders the rows of an order from by expert to the order in which a plan sends them. `experts`
/// is not changed.
///
/// @param on as for order_by_expert
/// @param rows [choices], a copy of token_plan::rows_by_expert()
/// @pre as order_by_expert
/// @throws argument_error if the sizes of the lists do not fit together, or there are not as many
///         rows
template <class Policy>
void order_for_plan(Policy const& on, std::span<std::uint32_t const> rows,
                    device_expert_order const& order) {
  constexpr auto caller = "order_for_plan";
  detail::check_order(caller, order);
  detail::require(rows.size() == order.rows(), caller, ": ", rows.size(), " rows; expected ",
                  order.rows());
  auto* const row_of = order.row_of.data();
  auto* const choice_of = order.choice_of.data();
  auto const count = static_cast<std::ptrdiff_t>(rows.size());
  thrust::transform(on, row_of, row_of + count, row_of, detail::element_at{rows.data()});
  auto const numbers = thrust::counting_iterator<std::uint32_t>{0};
  thrust::scatter(on, numbers, numbers + count, row_of, choice_of);
}

}  // namespace fssdp
