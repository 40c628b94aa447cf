// SPDX-License-Identifier: Apache-2.0
/// What a stream-bound communicator would read after it is gone must not compile: temporary lists of
/// tensors, their memory, plans. Things that have names are taken, and so are temporaries where the
/// work is done within the call.
#include <array>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/collective/reshard.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/on.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/core/bytes_of.hpp"
#include "fssdp/core/expert_buffer.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/token/dispatch.hpp"

namespace {

using bound = fssdp::queued_communicator<fssdp::thread_communicator>&;
using in_line = fssdp::thread_communicator&;
using plan = fssdp::transfer_plan const&;
using buffer = fssdp::expert_buffer<float>;
using tensor = fssdp::expert_tensor<float>;
using tensors = std::vector<tensor>;
using bytes = decltype(fssdp::bytes_of(std::declval<buffer&>()));
using shard = decltype(layer_shard(std::declval<fssdp::layer_stack<fssdp::block_layout> const&>(),
                                   fssdp::layer_id{0}, fssdp::rank_id{0}, std::declval<buffer&>()));
using links = fssdp::coded_links<fssdp::bf16_codec> const&;
using uncoded = fssdp::uncoded;
using rows = fssdp::rows_view<float>;

constexpr auto gather = [](auto&&... arguments) requires requires {
  sparse_all_gather(std::forward<decltype(arguments)>(arguments)...);
} {};
constexpr auto reduce = [](auto&&... arguments) requires requires {
  sparse_reduce_scatter(std::forward<decltype(arguments)>(arguments)...);
} {};
constexpr auto move = [](auto&&... arguments) requires requires {
  reshard(std::forward<decltype(arguments)>(arguments)...);
} {};
constexpr auto send = [](auto&&... arguments) requires requires {
  dispatch(std::forward<decltype(arguments)>(arguments)...);
} {};
constexpr auto bring_back = [](auto&&... arguments) requires requires {
  combine(std::forward<decltype(arguments)>(arguments)...);
} {};

/// Whether a collective compiles with arguments of these types: a temporary where it is no reference.
template <class... Arguments>
struct with {
  template <class Collective>
  static constexpr bool compiles(Collective const&) {
    return std::is_invocable_v<Collective const&, Arguments...>;
  }
};

// what has a name, and spans of that
static_assert(with<bound, plan, buffer&, buffer&>::compiles(gather));
static_assert(with<bound, plan, std::span<tensor const>, std::span<tensor const>>::compiles(gather));
static_assert(with<bound, plan, tensor const&, tensor const&, links>::compiles(gather));
static_assert(with<bound, plan, buffer&, buffer&, uncoded>::compiles(gather));
static_assert(with<bound, plan, bytes const&, bytes const&>::compiles(gather));
static_assert(with<bound, plan, shard const&, buffer&>::compiles(gather));
static_assert(with<bound, plan, buffer&, buffer&>::compiles(reduce));
static_assert(with<bound, plan, buffer&, buffer&, links>::compiles(reduce));
static_assert(with<bound, plan, buffer&, buffer&, links, buffer&>::compiles(reduce));
static_assert(with<bound, plan, buffer&, buffer&, uncoded>::compiles(reduce));
static_assert(with<bound, fssdp::reshard_plan const&, buffer&>::compiles(move));
static_assert(with<bound, fssdp::reshard_plan, bytes>::compiles(move));  // both are copied
static_assert(with<bound, fssdp::token_plan const&, rows, rows>::compiles(send));
static_assert(with<bound, fssdp::token_plan const&, rows, rows>::compiles(bring_back));

// temporary lists, views and buffers
static_assert(!with<bound, plan, bytes, buffer&>::compiles(gather));
static_assert(!with<bound, plan, buffer&, bytes>::compiles(gather));
static_assert(!with<bound, plan, tensor, buffer&>::compiles(gather));
static_assert(!with<bound, plan, buffer&, tensors>::compiles(gather));
static_assert(!with<bound, plan, buffer&, buffer>::compiles(gather));
static_assert(!with<bound, plan, shard, buffer&>::compiles(gather));
static_assert(!with<bound, plan, std::array<tensor, 1>, buffer&, links>::compiles(gather));
static_assert(!with<bound, plan, buffer&, tensor, links>::compiles(gather));
static_assert(!with<bound, plan, bytes, buffer&, uncoded>::compiles(gather));
static_assert(!with<bound, plan, tensors, buffer&>::compiles(reduce));
static_assert(!with<bound, plan, buffer&, tensor>::compiles(reduce));
static_assert(!with<bound, plan, buffer, buffer&, links>::compiles(reduce));
static_assert(!with<bound, plan, buffer&, buffer&, links, buffer>::compiles(reduce));
static_assert(!with<bound, plan, buffer&, tensors, uncoded>::compiles(reduce));
static_assert(!with<bound, fssdp::reshard_plan const&, buffer>::compiles(move));

// temporary plans
static_assert(!with<bound, fssdp::transfer_plan, buffer&, buffer&>::compiles(gather));
static_assert(!with<bound, fssdp::transfer_plan const, buffer&, buffer&>::compiles(gather));
static_assert(!with<bound, fssdp::transfer_plan, buffer&, buffer&, links>::compiles(gather));
static_assert(!with<bound, fssdp::transfer_plan, buffer&, buffer&, uncoded>::compiles(gather));
static_assert(!with<bound, fssdp::transfer_plan, buffer&, buffer&>::compiles(reduce));
static_assert(!with<bound, fssdp::transfer_plan const, buffer&, buffer&, links>::compiles(reduce));
static_assert(!with<bound, fssdp::transfer_plan, buffer&, buffer&, links, buffer&>::compiles(reduce));
static_assert(!with<bound, fssdp::transfer_plan, buffer&, buffer&, uncoded>::compiles(reduce));
static_assert(!with<bound, fssdp::token_plan, rows, rows>::compiles(send));
static_assert(!with<bound, fssdp::token_plan const, rows, rows>::compiles(send));
static_assert(!with<bound, fssdp::token_plan, rows, rows>::compiles(bring_back));

// all of them where the work is done within the call
static_assert(with<in_line, plan, bytes, bytes>::compiles(gather));
static_assert(with<in_line, fssdp::transfer_plan, buffer&, buffer&>::compiles(gather));
static_assert(with<in_line, plan, buffer, tensors>::compiles(reduce));
static_assert(with<in_line, fssdp::transfer_plan const, buffer&, buffer&>::compiles(reduce));
static_assert(with<in_line, fssdp::token_plan, rows, rows>::compiles(send));
static_assert(with<in_line, fssdp::token_plan const, rows, rows>::compiles(bring_back));

}  // namespace
