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

/// How rows are sent.
struct token_options {
  /// Two ranks exchange one segment per expert. If their segments have fewer bytes than this on
  /// average, they are sent as one message; segments that are not contiguous are then packed and
  /// unpacked. Otherwise each segment is a message, and nothing is packed. 0: never pack; -1:
  /// always one message. Equal on all ranks. The default is `packs_below` in host memory, and 0 on
  /// devices, where packing takes one copy per segment. If both row orders are by rank, all is one
  /// message, without packing.
  std::optional<std::size_t> pack_below = {};
  /// Kept between calls, so that they do not allocate; one for each communicator.
  scratch_memory* scratch = nullptr;
  /// For communicators that work on device memory: device memory to pack into, aligned to a cache
  /// line; the size of all rows that are sent and received is always enough. If empty, it is
  /// allocated in stream order.
  std::span<std::byte> device_scratch = {};

  /// The default of pack_below in host memory: above it, packing gains nothing between hosts. Eight
  /// shorter segments are 1.2 to 5 times as fast as one message there; between threads, as fast at
  /// 512 bytes, and half as fast at 8 KiB (bench/token_messages).
  static constexpr std::size_t packs_below = 16 * 1024;
};

namespace detail {

/// An exchange of rows on one rank, ready to run. It keeps all that it needs but the memory of the
/// rows and the scratch. Rows that stay on the rank are copied.
class row_exchange {
 public:
  /// @param back true for combine: rows that were dispatched come back
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

/// @throws argument_error unless the plan was made for this rank
void check_plan_of(char const* name, token_plan const& plan, rank_id rank, int ranks);

/// Exchanges rows.
/// @param to the rows to write, although row_memory is read-only
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

/// Sends permuted rows to the ranks that compute them. The transpose of combine, and so its
/// backward.
/// @param from [sent, width], in the order of plan.sends(): by expert, as permute writes them,
///             unless the plan was made for another order
/// @param to   [received, width], in the order of plan.receives(): by expert, then by source,
///             unless the plan was made for another order
/// @pre every rank calls with its plan of the same counts, and with the same width; `from` and `to`
///      do not overlap, and live until the communicator is synchronized. The plan may be a
///      temporary
/// @cost one exchange; one message per rank if its segments are short (token_options::pack_below),
///       otherwise one per segment. If the rows of a message are not contiguous, its sender, its
///       receiver or both copy it once more; one allocation for that if no scratch is given. Rows
///       that stay are copied once. On devices, each segment is a copy of its own
/// @throws argument_error before anything is sent; transport errors
template <communicator Comm, class T, class U>
requires std::is_same_v<std::remove_const_t<T>, U>
void dispatch(Comm& comm, token_plan const& plan, rows_view<T> from, rows_view<U> to,
              token_options const& options = {}) {
  detail::exchange_rows("dispatch", comm, plan, false, from, to, options);
}

/// Sends computed rows back to the ranks of their tokens. The transpose of dispatch, and so its
/// backward.
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
