// SPDX-License-Identifier: Apache-2.0
/// Moves rows of tokens to the experts and back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/token/rows_view.hpp"
#include "fssdp/token/token_plan.hpp"

namespace fssdp {

namespace detail {

/// Segments of rows, ready to be exchanged: `out` of `from` against `in` of `to`. What stays on the
/// rank is copied.
struct segment_exchange {
  batch_label label;
  std::span<token_segment const> out;
  std::byte const* from;
  std::span<token_segment const> in;
  std::byte* to;
  std::size_t row_bytes;

  template <communicator Comm>
  void operator()(Comm& comm) const {
    run(communicator_ref{comm});
  }

 private:
  [[nodiscard]] std::span<std::byte const> sent(token_segment const& s) const {
    return {from + s.first * row_bytes, s.rows * row_bytes};
  }
  [[nodiscard]] std::span<std::byte> received(token_segment const& s) const {
    return {to + s.first * row_bytes, s.rows * row_bytes};
  }
  void run(communicator_ref const& comm) const {
    auto const me = comm.rank();
    comm.exchange([&](batch_ref const& batch) {
      batch.label(label);
      for (auto const& s : out)
        if (s.peer != me) batch.send(sent(s), s.peer);
      for (auto const& s : in)
        if (s.peer != me) batch.recv(received(s), s.peer);
    });
    auto const is_mine = [me](token_segment const& s) { return s.peer == me; };
    auto arriving = std::ranges::find_if(in, is_mine);
    for (auto const& s : out) {
      if (!is_mine(s)) continue;
      if (comm.in_host_memory())
        std::ranges::copy(sent(s), received(*arriving).begin());
      else
        comm.copy(received(*arriving), sent(s));
      arriving = std::ranges::find_if(arriving + 1, in.end(), is_mine);
    }
  }
};

/// Exchanges them.
template <communicator Comm, class From, class To>
void exchange_segments(char const* verb, Comm& comm, token_plan const& plan, int round,
                       std::span<token_segment const> out, From from,
                       std::span<token_segment const> in, To to) {
  require(comm.size() == plan.ranks() && comm.rank() == plan.rank(), verb, ": rank ", comm.rank(),
          " of ", comm.size(), "; the plan is for rank ", plan.rank(), " of ", plan.ranks());
  check_apart(verb, "from", from, "to", to);
  submit(comm, segment_exchange{.label = {plan.hash_value(), round},
                                .out = out,
                                .from = reinterpret_cast<std::byte const*>(from.data),
                                .in = in,
                                .to = reinterpret_cast<std::byte*>(to.data),
                                .row_bytes = from.width * sizeof(*from.data)});
}

}  // namespace detail

/// Sends permuted rows to the ranks that compute them. The transpose of combine, and so the
/// backward of combine.
/// @param from [sent, width], by expert, as permute leaves them
/// @param to   [received, width], by expert, then by source
/// @pre every rank calls with its plan of the same counts and the same width; `from` and `to` do
///      not overlap and, like the plan, live until the communicator is synchronized: where it is
///      bound to a stream, a temporary plan does not compile
/// @cost a message per segment that leaves the rank; one exchange; no packing, no allocation. On a
///       device a copy per segment that stays
/// @throws argument_error before anything is sent; transport errors
template <communicator Comm, class T, class U>
requires std::is_same_v<std::remove_const_t<T>, U>
void dispatch(Comm& comm, token_plan const& plan, rows_view<T> from, rows_view<U> to) {
  detail::check_rows("dispatch", "from", from, plan.sent_rows(), from.width);
  detail::check_rows("dispatch", "to", to, plan.received_rows(), from.width);
  detail::exchange_segments("dispatch", comm, plan, 0, plan.sends(), from, plan.receives(), to);
}

/// Brings computed rows back to where their tokens are. The transpose of dispatch, and so the
/// backward of dispatch.
/// @param from [received, width]
/// @param to   [sent, width]
/// @pre, @cost, @throws as dispatch
template <communicator Comm, class T, class U>
requires std::is_same_v<std::remove_const_t<T>, U>
void combine(Comm& comm, token_plan const& plan, rows_view<T> from, rows_view<U> to) {
  detail::check_rows("combine", "from", from, plan.received_rows(), from.width);
  detail::check_rows("combine", "to", to, plan.sent_rows(), from.width);
  detail::exchange_segments("combine", comm, plan, 1, plan.receives(), from, plan.sends(), to);
}

/// A stream would read the plan when it is gone.
template <communicator Comm, class T, class U>
requires stream_bound<Comm>
void dispatch(Comm& comm, token_plan const&& plan, rows_view<T> from, rows_view<U> to) = delete;
template <communicator Comm, class T, class U>
requires stream_bound<Comm>
void combine(Comm& comm, token_plan const&& plan, rows_view<T> from, rows_view<U> to) = delete;

}  // namespace fssdp
