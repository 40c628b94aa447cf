// SPDX-License-Identifier: Apache-2.0
/// All-gather and reduce-scatter of one array that is divided unevenly among the ranks.
#pragma once

#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>

#include "fssdp/codec/coded_links.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_extras.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/plan/uneven_plan.hpp"

namespace fssdp {

namespace detail {

/// An array and its name in error messages.
struct named_array {
  char const* name;
  std::size_t elements;
  std::span<std::byte const> bytes;
};
template <class T>
[[nodiscard]] named_array named(char const* name, std::span<T> array) {
  return {name, array.size(), std::as_bytes(array)};
}
/// @throws argument_error unless the plan is for this number of ranks, `mine` has the elements that
///         this rank owns, `all` has all elements, and the two share no memory
void check_arrays(char const* collective, uneven_plan const& plan, int ranks, rank_id rank,
                  named_array const& mine, named_array const& all);

/// The blocks that a rank owns, or the whole array, as the slots of a plan.
template <class T>
[[nodiscard]] expert_tensor<T> as_slots(std::span<T> array, std::span<std::size_t const> offsets) {
  return {
      .data = array.data(), .slots = offsets.size() - 1, .elements = 1, .offsets = offsets.data()};
}

/// The elements of a contiguous range; const if the range is.
template <std::ranges::contiguous_range Range>
using range_element = std::remove_reference_t<std::ranges::range_reference_t<Range>>;

/// Whether an array still exists when the communicator does its work: not a temporary that owns it.
template <class Range, class Comm>
concept array_for = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    (!stream_bound<Comm> || std::ranges::borrowed_range<Range>);

}  // namespace detail

/// Gathers the whole array on every rank: `mine` [elements(rank)] -> `all` [elements()].
///
/// @param mine the blocks that this rank owns, contiguous, in the order of the array; of any
///             trivially copyable type
/// @param all  the whole array; if its element type differs from that of `mine`, owners convert
///             before they send
/// @param links uncoded, or coded_links: then all ranks decode the same bytes
/// @pre every rank calls with an equal plan; `mine` and `all` do not overlap, and live until the
///      communicator is synchronized
/// @cost as sparse_all_gather with the parts of the plan: a rank receives what the others own; with
///       equal blocks it sends and receives elements * (ranks - 1) / ranks; no allocation
/// @throws argument_error before anything is sent, if an array has the wrong length; transport
///         errors
template <communicator Comm, class Mine, class All, class Links = uncoded>
requires detail::array_for<Mine, Comm> && detail::array_for<All, Comm>
void all_gather_v(Comm& comm, uneven_plan const& plan, Mine&& mine, All&& all,
                  Links const& links = {}, gather_options const& options = {}) {
  auto const rank = comm.rank();
  auto const from = std::span<detail::range_element<Mine> const>{mine};
  auto const to = std::span<detail::range_element<All>>{all};
  auto const& parts = plan.plan();
  detail::check_arrays("all_gather_v", plan, comm.size(), rank, detail::named("mine", from),
                       detail::named("all", to));
  auto const mine_as_slots = detail::as_slots(from, parts.owned_offsets(rank));
  auto all_as_slots = detail::as_slots(to, parts.materialized_offsets(rank));
  if constexpr (std::is_same_v<Links, uncoded>)
    submit(comm, detail::make_gather(comm, parts, mine_as_slots, all_as_slots, options));
  else
    sparse_all_gather(comm, parts, mine_as_slots, all_as_slots, links, options);
}

/// Sums the array over all ranks and leaves each rank the part that it owns: `partials`
/// [elements()] -> `mine` [elements(rank)]. The transpose of all_gather_v.
///
/// @param partials this rank's summand for every element of the array
/// @param mine the blocks that this rank owns, contiguous, in the order of the array; of any
///             element type
/// @post `mine` has scale * (sum over all ranks). Sums are formed in accumulator_t, in an order
///       that the plan fixes: equal plans give equal bits. With reduction_order::by_rank in the
///       options of the plan, that order is the order of ranks
/// @cost as sparse_reduce_scatter; one allocation if no scratch is given
/// @throws as all_gather_v
template <communicator Comm, class Partials, class Mine, class Links = uncoded>
requires detail::array_for<Partials, Comm> && detail::array_for<Mine, Comm>
void reduce_scatter_v(Comm& comm, uneven_plan const& plan, Partials&& partials, Mine&& mine,
                      Links const& links = {}, reduce_options const& options = {}) {
  auto const rank = comm.rank();
  auto const from = std::span<detail::range_element<Partials> const>{partials};
  auto const to = std::span<detail::range_element<Mine>>{mine};
  auto const& parts = plan.plan();
  detail::check_arrays("reduce_scatter_v", plan, comm.size(), rank, detail::named("mine", to),
                       detail::named("partials", from));
  auto const all_as_slots = detail::as_slots(from, parts.materialized_offsets(rank));
  auto mine_as_slots = detail::as_slots(to, parts.owned_offsets(rank));
  if constexpr (std::is_same_v<Links, uncoded>)
    submit(comm, detail::unchecked_reduction(comm, parts, all_as_slots, mine_as_slots, options));
  else
    sparse_reduce_scatter(comm, parts, all_as_slots, mine_as_slots, links, options);
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/collective/all_gather_v_inl.hpp"
#endif
