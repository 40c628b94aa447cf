// SPDX-License-Identifier: Apache-2.0
/// The calls of a thread_communicator, passed on to its rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fssdp/comm/group.hpp"
#include "fssdp/comm/lost_ranks.hpp"
#include "fssdp/comm/thread/thread_communicator.hpp"
#include "fssdp/comm/thread/thread_rank.hpp"
#include "fssdp/core/inline.hpp"

namespace fssdp {

FSSDP_INLINE thread_communicator::thread_communicator(detail::thread_context& context, rank_id rank)
    : does_{std::make_unique<detail::thread_rank>(context, rank)} {}
FSSDP_INLINE thread_communicator::thread_communicator(thread_communicator&&) noexcept = default;
FSSDP_INLINE thread_communicator& thread_communicator::operator=(thread_communicator&&) noexcept =
    default;
FSSDP_INLINE thread_communicator::~thread_communicator() = default;

FSSDP_INLINE rank_id thread_communicator::rank() const { return does_->rank(); }

FSSDP_INLINE int thread_communicator::size() const { return does_->size(); }

FSSDP_INLINE std::uint64_t thread_communicator::copied_bytes() const {
  return does_->copied_bytes();
}

FSSDP_INLINE thread_communicator thread_communicator::duplicate() {
  return {does_->context().child(rank(), no_color, does_->context().ranks()), rank()};
}

FSSDP_INLINE std::optional<thread_communicator> thread_communicator::split(int color, int key) {
  detail::check_color(color);
  auto const mine = detail::split_choice{color, key};
  auto all = std::vector<detail::split_choice>(static_cast<std::size_t>(size()), mine);
  exchange([&](auto& batch) {
    batch.label(detail::split_label);
    detail::name_values(batch, rank(), size(), std::as_bytes(std::span{&mine, 1}),
                        std::as_writable_bytes(std::span{all}));
  });
  if (color == no_color) {
    does_->context().skip_child(rank());
    return {};
  }
  auto const ranks = detail::ranks_of_color(all, color);
  auto& context = does_->context().child(rank(), color, does_->context().ranks().of(ranks));
  return thread_communicator{context, rank_id{std::ranges::find(ranks, rank()) - ranks.begin()}};
}

FSSDP_INLINE std::vector<rank_id> thread_communicator::find_lost() {
  return does_->context().find_lost(rank());
}

FSSDP_INLINE thread_communicator thread_communicator::without(std::span<rank_id const> lost) {
  auto const ranks = detail::checked_lost(lost, rank(), size());
  auto const before = std::ranges::lower_bound(ranks, rank()) - ranks.begin();
  return {does_->context().without(rank(), ranks), rank_id{rank().value() - before}};
}

FSSDP_INLINE rank_id thread_communicator::world_rank(rank_id rank) const {
  return does_->context().ranks().checked_world_rank(rank);
}

FSSDP_INLINE void thread_communicator::begin() { does_->begin(); }
FSSDP_INLINE void thread_communicator::stage(std::span<std::byte const> bytes, rank_id to,
                                             bool held) {
  does_->stage(bytes, to, held);
}
FSSDP_INLINE void thread_communicator::want(rank_id from, std::size_t bytes, std::byte* into) {
  does_->want(from, bytes, into);
}
FSSDP_INLINE void thread_communicator::label(batch_label const& value) { does_->label(value); }
FSSDP_INLINE void thread_communicator::release(std::size_t number) { does_->release(number); }
FSSDP_INLINE void thread_communicator::exchange_named() { does_->exchange(); }
FSSDP_INLINE void thread_communicator::lend_named(
    detail::function_ref<void(std::span<std::span<std::byte const> const>)> visit) {
  does_->lend(visit);
}
FSSDP_INLINE void thread_communicator::forward_named(
    detail::function_ref<void(std::size_t, std::span<std::byte const>)> arrived) {
  does_->forward(arrived);
}
FSSDP_INLINE void thread_communicator::meet_named(
    detail::function_ref<void(std::span<std::span<std::byte const> const>)> prepare,
    detail::function_ref<void(detail::thread_meeting const&)> serve) {
  does_->meet(prepare, serve);
}

}  // namespace fssdp
