// SPDX-License-Identifier: Apache-2.0
/// The signatures of the optional functions of a communicator: to detect those it has, and those it
/// seems to have with a wrong signature.
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

/// An archetype of `post`: a function that adds messages to a batch.
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
/// An archetype of `visit`: a function that reads borrowed memory.
struct any_visit {
  void operator()(std::span<std::span<std::byte const> const>) const {}
};
/// An archetype of `arrived`: a function that is called for received messages.
struct any_arrived {
  template <release_gate Gate>
  void operator()(std::size_t, std::span<std::byte const>, Gate&) const {}
};
/// An archetype of work for a communicator.
struct any_work {
  template <class Comm>
  void operator()(Comm&) const {}
};
/// An archetype of a plan's hash: must be accepted as 64 bits, without truncation.
struct any_plan_hash {
  template <std::unsigned_integral T>
  requires(sizeof(T) >= sizeof(std::uint64_t)) operator T()
      const;  // NOLINT(google-explicit-constructor)
};

/// An archetype of a color or key: must be accepted as a signed int, without truncation.
struct any_color {
  template <std::signed_integral T>
  requires(sizeof(T) >= sizeof(int)) operator T() const;  // NOLINT(google-explicit-constructor)
};

/// A type that may own the memory of its tensors, unlike views and lists of views.
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

/// The type of stream that a communicator enqueues on: its stream_type; inline_stream if it has
/// none.
template <class Comm>
using stream_type_of = typename detail::stream_of<Comm>::type;

/// The kind of memory of a communicator: its memory_space; host_memory if it has none.
template <class Comm>
using memory_space_of = typename detail::memory_of<Comm>::type;

/// Whether a communicator's calls return before their work is done.
template <class Comm>
concept stream_bound = !std::same_as<stream_type_of<Comm>, inline_stream>;

/// Whether the memory of a buffer that is passed as `Buffer&&` still exists when the work of a
/// communicator runs. On a communicator that is bound to a stream, work runs after the call has
/// returned: a temporary expert_buffer, or another type that may own memory, no longer exists then.
/// Views are copied by the call, and may be temporaries.
template <class Buffer, class Comm>
concept outlives_the_call =
    !stream_bound<Comm> || std::is_lvalue_reference_v<Buffer> || !detail::has_tensors<Buffer>;

namespace detail {

// The signature of each optional function.

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

// A communicator with a function of one of these names must have the whole group. The names of
// these concepts appear in compile errors and say what is expected.

/// Has submit or synchronize, or is bound to a stream: then it must have all three.
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
/// Has announce or has_agreed: then it must have agree, too.
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
/// Has find_lost: then it must have without, too.
template <class Comm>
concept its_find_lost_returns_ranks_and_without_goes_with_it =
    finds_lost<Comm> || !offers_find_lost<Comm>;
template <class Comm>
concept its_gather_values_takes_mine_and_all = gathers_values<Comm> || !offers_gather_values<Comm>;
/// On host memory, names as common as `copy` have no meaning and are not checked.
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
