// SPDX-License-Identifier: Apache-2.0
/// A small dense all-gather built on `exchange` alone: for counts and norms, not for parameters.
#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"

namespace fssdp {

namespace detail {

/// An all-gather on one rank, ready to run.
struct all_gather_call {
  std::span<std::byte const> from;
  std::span<std::byte> to;

  /// @throws argument_error if the size of `to` is not ranks * the size of `from`, or they overlap
  void check(int ranks, std::size_t element_bytes) const;

  template <communicator Comm>
  void operator()(Comm& comm) const {
    communicator_ref{comm}.gather_values(from, to);
  }
};

}  // namespace detail

/// Gathers the values of all ranks: mine [n] -> all [ranks, n], where row r comes from rank r.
/// Blocks until `all` is complete (it synchronizes the communicator).
/// @pre n is the same on all ranks; `mine` and `all` do not overlap
/// @cost one exchange: size - 1 messages of n elements sent, and as many received; where the
///       communicator works on device memory, its own call for host values (`gather_values`)
/// @throws argument_error if `all` is not [ranks, n] or overlaps `mine`; transport errors
template <communicator Comm, std::ranges::contiguous_range Mine, std::ranges::contiguous_range All>
void all_gather(Comm& comm, Mine const& mine, All&& all) {
  using T = std::ranges::range_value_t<Mine>;
  static_assert(std::same_as<T, std::ranges::range_value_t<All>>);
  static_assert(std::is_trivially_copyable_v<T>);
  auto const call = detail::all_gather_call{std::as_bytes(std::span<T const>{mine}),
                                            std::as_writable_bytes(std::span<T>{all})};
  call.check(comm.size(), sizeof(T));
  if constexpr (gathering_communicator<Comm>) {
    comm.gather_values(call.from, call.to);
    return;
  }
  submit(comm, call);
  synchronize(comm);
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/collective/all_gather_inl.hpp"
#endif
