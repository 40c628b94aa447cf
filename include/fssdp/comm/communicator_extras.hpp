// SPDX-License-Identifier: Apache-2.0
/// The signatures of what a communicator may offer besides `exchange`: those that it has, and those
/// that it seems to have and does not.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "fssdp/comm/batch.hpp"
#include "fssdp/comm/offered_calls.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/element/device_conversions.hpp"
#include "fssdp/element/device_encoding.hpp"
#include "fssdp/element/device_sums.hpp"
#include "fssdp/stream/stream.hpp"

namespace fssdp {

namespace detail {

/// Stand for any `post`: a function that names the messages of a batch.
struct any_post {
  template <exchange_batch Batch>
  void operator()(Batch&) const {}
};
struct any_lending_post {
  template <lending_batch Batch>
  void operator()(Batch&) const {}
};
struct any_forwarding_post {
  template <forwarding_batch Batch>
  void operator()(Batch&) const {}
};
/// Stands for any `visit`: a function that looks at borrowed memory.
struct any_visit {
  void operator()(std::span<std::span<std::byte const> const>) const {}
};
/// Stands for any `arrived`: a function that is told of messages as they come in.
struct any_arrived {
  template <release_gate Gate>
  void operator()(std::size_t, std::span<std::byte const>, Gate&) const {}
};
/// Stands for any work of a communicator.
struct any_work {
  template <class Comm>
  void operator()(Comm&) const {}
};
/// Stands for any hash of a plan: 64 bits, which must not be cut.
struct any_plan_hash {
  template <std::unsigned_integral T>
  requires(sizeof(T) >= sizeof(std::uint64_t)) operator T()
      const;  // NOLINT(google-explicit-constructor)
};

/// Stands for any color or key: an int with its sign, which must not be cut.
struct any_color {
  template <std::signed_integral T>
  requires(sizeof(T) >= sizeof(int)) operator T() const;  // NOLINT(google-explicit-constructor)
};

/// What may own the memory of its tensors, unlike views and lists of them.
template <class Buffer>
concept has_tensors = requires(Buffer& buffer) {
  buffer.tensors();
};

template <class Comm>
concept names_its_stream = requires {
  typename Comm::stream_type;
};
template <class Comm>
concept names_its_memory = requires {
  typename Comm::memory_space;
};

template <class Comm>
struct stream_of {
  using type = inline_stream;
};
template <names_its_stream Comm>
struct stream_of<Comm> {
  using type = typename Comm::stream_type;
};
template <class Comm>
struct memory_of {
  using type = host_memory;
};
template <names_its_memory Comm>
struct memory_of<Comm> {
  using type = typename Comm::memory_space;
};

}  // namespace detail

/// What a communicator's work is enqueued on: its stream_type, or inline_stream if it has none.
template <class Comm>
using stream_type_of = typename detail::stream_of<Comm>::type;

/// Where the memory is that a communicator moves: its memory_space, or host_memory if it has none.
template <class Comm>
using memory_space_of = typename detail::memory_of<Comm>::type;

/// Whether a communicator's calls return before their work is done.
template <class Comm>
concept stream_bound = !std::same_as<stream_type_of<Comm>, inline_stream>;

/// Whether the memory of a buffer that is given as `Buffer&&` is still there when the work of a
/// communicator runs. That of a stream-bound one runs after the call has returned: a temporary
/// expert_buffer, or whatever else may own the memory, is gone then. Views of memory are copied by
/// the call, and may be temporaries.
template <class Buffer, class Comm>
concept outlives_the_call =
    !stream_bound<Comm> || std::is_lvalue_reference_v<Buffer> || !detail::has_tensors<Buffer>;

namespace detail {

// What each extra looks like.

template <class Comm>
concept takes_work = requires(Comm& comm, any_work work) {
  comm.submit(work);
};
template <class Comm>
concept can_be_awaited = requires(Comm& comm) {
  comm.synchronize();
};
template <class Comm>
concept lends = requires(Comm& comm, any_lending_post post, any_visit visit) {
  comm.lend(post, visit);
};
template <class Comm>
concept forwards = requires(Comm& comm, any_forwarding_post post, any_arrived arrived) {
  comm.forward(post, arrived);
};
template <class Comm>
concept agrees = requires(Comm& comm, any_plan_hash plan) {
  comm.agree(plan);
};
template <class Comm>
concept announces = agrees<Comm> &&
    requires(Comm& comm, std::span<std::uint64_t const> plans, any_plan_hash plan) {
  comm.announce(plans);
  { comm.has_agreed(plan) } -> std::same_as<bool>;
};
template <class Comm>
concept connects = requires(Comm& comm, std::span<rank_id const> peers) {
  comm.connect(peers);
};
template <class Comm>
concept duplicates = requires(Comm& comm, any_post post) {
  { comm.duplicate().rank() } -> std::same_as<rank_id>;
  { comm.duplicate().size() } -> std::same_as<int>;
  comm.duplicate().exchange(post);
};
template <class Comm>
concept splits = requires(Comm& comm, any_color color, any_post post) {
  { comm.split(color, color).has_value() } -> std::same_as<bool>;
  { comm.split(color, color)->rank() } -> std::same_as<rank_id>;
  { comm.split(color, color)->size() } -> std::same_as<int>;
  comm.split(color, color)->exchange(post);
};
template <class Comm>
concept shrinks = requires(Comm& comm, std::span<rank_id const> lost, any_post post) {
  { comm.without(lost).rank() } -> std::same_as<rank_id>;
  { comm.without(lost).size() } -> std::same_as<int>;
  comm.without(lost).exchange(post);
};
template <class Comm>
concept finds_lost = shrinks<Comm> && requires(Comm& comm) {
  { comm.find_lost() } -> std::same_as<std::vector<rank_id>>;
};
template <class Comm>
concept gathers_values = requires(Comm& comm, std::span<std::byte const> mine,
                                  std::span<std::byte> all) {
  comm.gather_values(mine, all);
};
template <class Comm>
concept works_on_device = requires(Comm& comm, device_sums const& sum,
                                   device_conversions const& conversion, std::span<std::byte> to,
                                   std::span<std::byte const> from) {
  comm.sum(sum);
  comm.convert(conversion);
  comm.copy(to, from);
  { comm.allocate(std::size_t{}) } -> std::same_as<std::span<std::byte>>;
  comm.free(to);
};
template <class Comm>
concept encodes_on_device = requires(Comm& comm, device_encoding const& encoding,
                                     device_sum_encoding const& of_sum) {
  comm.encode(encoding);
  comm.encode(of_sum);
};
template <class Comm>
concept is_on_side_stream = requires(Comm& comm, Comm const& view, any_work work,
                                     std::span<std::byte> memory) {
  comm.prepare(work);
  { view.position() } -> std::same_as<std::uint64_t>;
  comm.await(std::uint64_t{});
  comm.clear(memory);
};

// Whoever offers the name of an extra offers the extra. The names say what is expected: they stand
// in the errors of the compiler.

/// Offers submit or synchronize, or is bound to a stream: then it has all three.
template <class Comm>
concept its_stream_type_submit_and_synchronize_go_together =
    !(stream_bound<Comm> || offers_submit<Comm> || offers_synchronize<Comm>) ||
    (names_its_stream<Comm> && takes_work<Comm> && can_be_awaited<Comm>);
template <class Comm>
concept its_lend_takes_post_and_visit = lends<Comm> || !offers_lend<Comm>;
template <class Comm>
concept its_forward_takes_post_and_arrived = forwards<Comm> || !offers_forward<Comm>;
template <class Comm>
concept its_agree_takes_a_plan_hash = agrees<Comm> || !offers_agree<Comm>;
/// Offers announce or has_agreed: then it has agree, too.
template <class Comm>
concept its_announce_has_agreed_and_agree_go_together =
    announces<Comm> || !(offers_announce<Comm> || offers_has_agreed<Comm>);
template <class Comm>
concept its_connect_takes_a_span_of_peers = connects<Comm> || !offers_connect<Comm>;
template <class Comm>
concept its_duplicate_returns_a_communicator = duplicates<Comm> || !offers_duplicate<Comm>;
template <class Comm>
concept its_split_takes_color_and_key_and_may_return_a_communicator =
    splits<Comm> || !offers_split<Comm>;
template <class Comm>
concept its_without_takes_lost_ranks_and_returns_a_communicator =
    shrinks<Comm> || !offers_without<Comm>;
/// Offers find_lost: then it has without, too.
template <class Comm>
concept its_find_lost_returns_ranks_and_without_goes_with_it =
    finds_lost<Comm> || !offers_find_lost<Comm>;
template <class Comm>
concept its_gather_values_takes_mine_and_all = gathers_values<Comm> || !offers_gather_values<Comm>;
/// Names as common as `copy` mean nothing where memory is the host's.
template <class Comm>
concept its_device_work_is_complete =
    works_on_device<Comm> || !std::same_as<memory_space_of<Comm>, device_memory> ||
    !(offers_sum<Comm> || offers_convert<Comm> || offers_copy<Comm> || offers_allocate<Comm> ||
      offers_free<Comm>);
template <class Comm>
concept its_encode_takes_encodings_of_elements_and_of_sums =
    encodes_on_device<Comm> || !std::same_as<memory_space_of<Comm>, device_memory> ||
    !offers_encode<Comm>;
template <class Comm>
concept its_side_stream_is_complete =
    is_on_side_stream<Comm> || !std::same_as<memory_space_of<Comm>, device_memory> ||
    !offers_prepare<Comm>;

template <class Comm>
concept offers_whole_extras = its_stream_type_submit_and_synchronize_go_together<Comm> &&
    its_lend_takes_post_and_visit<Comm> && its_forward_takes_post_and_arrived<Comm> &&
    its_agree_takes_a_plan_hash<Comm> && its_announce_has_agreed_and_agree_go_together<Comm> &&
    its_connect_takes_a_span_of_peers<Comm> && its_duplicate_returns_a_communicator<Comm> &&
    its_split_takes_color_and_key_and_may_return_a_communicator<Comm> &&
    its_without_takes_lost_ranks_and_returns_a_communicator<Comm> &&
    its_find_lost_returns_ranks_and_without_goes_with_it<Comm> &&
    its_gather_values_takes_mine_and_all<Comm> && its_device_work_is_complete<Comm> &&
    its_encode_takes_encodings_of_elements_and_of_sums<Comm> && its_side_stream_is_complete<Comm>;

}  // namespace detail
}  // namespace fssdp
