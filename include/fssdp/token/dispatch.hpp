// SPDX-License-Identifier: Apache-2.0
/// Moves rows of tokens to the experts and back.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/token/rows_view.hpp"
#include "fssdp/token/token_plan.hpp"

namespace fssdp {

/// How rows travel.
struct token_options {
  /// The segments of two ranks, one for each expert, travel as one message if they have fewer bytes
  /// than this on average; what of them does not lie one after the other is packed, or unpacked.
  /// Else each is a message, and nothing is packed. 0: never pack; -1: always one message. Equal on
  /// all ranks. By default `packs_below` in host memory; 0 on devices, where each segment that is
  /// packed is a copy of its own. Where both row orders are by rank, all is one message, unpacked.
  std::optional<std::size_t> pack_below = {};
  /// Kept between calls, so that they do not allocate; one for each communicator.
  scratch_memory* scratch = nullptr;
  /// Where the communicator's memory is a device's: memory of it to pack into, at a cache line; as
  /// much as is sent and received is always enough. Without, it is allocated in the order of the
  /// stream.
  std::span<std::byte> device_scratch = {};

  /// From here on packing gains nothing between hosts. Eight shorter segments are 1.2 to 5 times as
  /// fast in one message there; between threads, as fast at 512 bytes, half as fast at 8 KiB
  /// (bench/token_messages).
  static constexpr std::size_t packs_below = 16 * 1024;
};

namespace detail {

/// An exchange of rows on one rank, ready to run: what it needs besides their memory and the
/// scratch is in it. What stays on the rank is copied.
class row_exchange {
 public:
  /// @param back whether rows that were sent come back
  row_exchange(token_plan const& plan, bool back, std::byte* from, std::byte* to,
               std::size_t row_bytes, token_options const& options)
      : plan_{plan}, back_{back}, from_{from}, to_{to}, row_bytes_{row_bytes}, options_{options} {}

  template <communicator Comm>
  void operator()(Comm& comm) const {
    run(communicator_ref{comm});
  }

 private:
  void run(communicator_ref const& comm) const;
  [[nodiscard]] std::size_t pack_below(communicator_ref const& comm) const;

  token_plan plan_;
  bool back_;
  std::byte* from_;  // only read
  std::byte* to_;
  std::size_t row_bytes_;
  token_options options_;
};

/// @throws argument_error unless the plan is that of this rank
void check_plan_of(char const* name, token_plan const& plan, rank_id rank, int ranks);

/// Exchanges them.
/// @param to is written: what a row_memory of it was made of
template <communicator Comm>
void exchange_rows(char const* name, Comm& comm, token_plan const& plan, bool back,
                   row_memory const& from, row_memory const& to, token_options const& options) {
  auto const shape = [&](bool received) {
    return received ? plan.received_rows() : plan.sent_rows();
  };
  check_rows(name, "from", from, shape(back), from.width);
  check_rows(name, "to", to, shape(!back), from.width);
  check_plan_of(name, plan, comm.rank(), comm.size());
  check_apart(name, "from", from, "to", to);
  submit(comm,
         row_exchange{plan, back, const_cast<std::byte*>(from.data),
                      const_cast<std::byte*>(to.data), from.width * from.element_bytes, options});
}

}  // namespace detail

/// Sends permuted rows to the ranks that compute them. The transpose of combine, and so the
/// backward of combine.
/// @param from [sent, width], as plan.sends() says: by expert, as permute leaves them, unless the
///             plan was made for another order
/// @param to   [received, width], as plan.receives() says: by expert, then by source, unless the
///             plan was made for another order
/// @pre every rank calls with its plan of the same counts and the same width; `from` and `to` do
///      not overlap, and live until the communicator is synchronized. The plan may be a temporary
/// @cost one exchange; a message to each rank if its segments are short (token_options::pack_below),
///       else one for each segment that leaves. A message whose rows do not lie one after the other
///       is copied once more, by its sender, its receiver or both; one allocation for that if no
///       scratch is given. Rows that stay are copied once. On devices, such copies are one for each
///       segment
/// @throws argument_error before anything is sent; transport errors
template <communicator Comm, class T, class U>
requires std::is_same_v<std::remove_const_t<T>, U>
void dispatch(Comm& comm, token_plan const& plan, rows_view<T> from, rows_view<U> to,
              token_options const& options = {}) {
  detail::exchange_rows("dispatch", comm, plan, false, from, to, options);
}

/// Brings computed rows back to where their tokens are. The transpose of dispatch, and so the
/// backward of dispatch.
/// @param from [received, width]
/// @param to   [sent, width]
/// @pre, @cost, @throws as dispatch
template <communicator Comm, class T, class U>
requires std::is_same_v<std::remove_const_t<T>, U>
void combine(Comm& comm, token_plan const& plan, rows_view<T> from, rows_view<U> to,
             token_options const& options = {}) {
  detail::exchange_rows("combine", comm, plan, true, from, to, options);
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/token/dispatch_inl.hpp"
#endif
