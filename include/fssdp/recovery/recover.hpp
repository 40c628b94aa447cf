// SPDX-License-Identifier: Apache-2.0
/// Recovery when ranks are lost: the remaining ranks agree on a step, choose new owners for all
/// experts among themselves, and restore the state of that step.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/collective/transfer_between.hpp"
#include "fssdp/comm/batch.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/group.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/plan/distribution.hpp"
#include "fssdp/plan/redistribution.hpp"
#include "fssdp/recovery/chunks_left.hpp"
#include "fssdp/recovery/even_owners.hpp"
#include "fssdp/recovery/mirrored_shard.hpp"
#include "fssdp/recovery/survivors.hpp"
#include "fssdp/topology/topology.hpp"
#include "fssdp/topology/topology_of.hpp"

namespace fssdp {

/// The state after a recovery.
struct recovered_state {
  std::uint64_t step = 0;   ///< all state is that of the end of this step
  table_layout layout;      ///< over the remaining ranks, with the numbers of their communicator
  std::uint64_t bytes = 0;  ///< moved between ranks, in total
};

namespace detail {

/// The steps that a rank has: of the current owners, and of the old ones.
struct mirrored_steps {
  struct of_owners {
    std::uint64_t hash = 0;
    std::uint64_t newest = 0;  // from 1; 0: none
    std::uint64_t padding = 0;
  };
  std::array<of_owners, 2> of = {};

  [[nodiscard]] static of_owners of_state(mirror_state* state) {
    if (state == nullptr || !state->newest().has_value()) return {};
    return {state->hash(), *state->newest() + 1};
  }
  /// The newest step of these owners, from 1; 0: none.
  [[nodiscard]] std::uint64_t newest_of(std::uint64_t hash) const {
    for (auto const& owners : of)
      if (owners.hash == hash) return owners.newest;
    return 0;
  }
};

/// The newest step that is complete on all remaining ranks: of the current owners, unless some rank
/// has none of these. The mirror continues with those owners, and forgets newer steps.
/// @throws state_lost if there is none; ranks_disagree if ranks differ in owners, partners or sizes
template <class Comm>
[[nodiscard]] std::uint64_t agreed_step(Comm& comm, mirrored_shard& mirror,
                                        std::span<rank_id const> ranks) {
  auto mine = mirrored_steps{};
  mine.of = {mirrored_steps::of_state(&mirror.state()),
             mirrored_steps::of_state(mirror.old_state())};
  auto all = std::vector<mirrored_steps>(static_cast<std::size_t>(comm.size()), mine);
  comm.exchange([&](exchange_batch auto& batch) {
    set_label(batch, {.plan = 0x7265636f766572, .round = 0});
    name_values(batch, comm.rank(), comm.size(), std::as_bytes(std::span{&mine, 1}),
                std::as_writable_bytes(std::span{all}));
  });
  auto const has_none = [](mirrored_steps const& of_rank) {
    return of_rank.of[0].newest + of_rank.of[1].newest == 0;
  };
  for (auto const& [hash, newest, padding] : all.front().of) {
    auto step = newest;
    for (auto const& of_rank : all) step = std::min(step, of_rank.newest_of(hash));
    if (step == 0) continue;
    if (mirror.state().hash() == hash)
      mirror.choose_new();
    else
      mirror.choose_old();
    return step - 1;
  }
  if (std::ranges::any_of(all, has_none))
    throw state_lost{ranks.front(),
                     {},
                     {},
                     "recover: no step has been mirrored on all ranks yet; load the last "
                     "checkpoint, with the ranks that are left"};
  throw ranks_disagree{
      ranks.back(), text("recover: the ranks that are left, rank ", ranks.front(), " to rank ",
                         ranks.back(), ", have no mirrors of the same owners, partners and sizes")};
}

/// The index of each rank in a list of ranks.
/// @throws argument_error if one is not in it
[[nodiscard]] inline std::vector<rank_id> numbers_of(std::span<rank_id const> ranks,
                                                     std::span<rank_id const> among) {
  auto numbers = std::vector<rank_id>{};
  for (auto const rank : ranks) {
    auto const at = std::ranges::find(among, rank);
    require(at != among.end(), "recover: rank ", rank, " is left, and nothing of it is mirrored; ",
            "expected one of the ranks that the mirror is for");
    numbers.emplace_back(at - among.begin());
  }
  return numbers;
}

/// The chunks of any layout as whole experts, so that whole slots are moved.
[[nodiscard]] inline distribution as_whole_slots(distribution const& of) {
  auto lists = std::vector<std::vector<chunk_id>>{};
  for (auto const rank : first_n<rank_id>(of.ranks())) {
    auto& list = lists.emplace_back();
    for (auto const chunk : of.slots(rank))
      list.emplace_back(expert_id{chunk.expert.value() * of.slices() + chunk.slice.value()});
  }
  return distribution{of.experts() * of.slices(), 1, std::move(lists)};
}

/// The memory of a rank as bytes, limited to this many slots.
/// @throws argument_error if tensors or their sizes differ, or slots are missing
[[nodiscard]] inline std::vector<expert_tensor<std::byte>> new_room(
    tensor_list const& room, std::span<std::size_t const> slot_bytes, std::size_t slots) {
  auto const all = room.all();
  require(all.size() == slot_bytes.size(), "recover: room of ", all.size(), " tensors; expected ",
          slot_bytes.size());
  auto tensors = std::vector<expert_tensor<std::byte>>{};
  for (std::size_t k = 0; k < all.size(); ++k) {
    auto const& tensor = all[k];
    auto const bytes = tensor.elements * tensor.element_bytes;
    require(bytes == slot_bytes[k] && tensor.slots >= slots && tensor.offsets == nullptr,
            "recover: tensor ", k, " of the room has ", tensor.slots, " slots of ", bytes,
            " bytes; expected ", slots, " of ", slot_bytes[k]);
    tensors.push_back({tensor.data, slots, bytes, tensor.stride * tensor.element_bytes,
                       static_cast<std::byte* const*>(tensor.places)});
  }
  return tensors;
}

/// The slots of a rank as of a step: its own, and the mirrors of lost ranks that it keeps.
class slots_left {
 public:
  slots_left(mirror_state& from, std::uint64_t step, std::span<rank_id const> ranks)
      : places_(from.slot_bytes().size()) {
    auto const add = [&](std::span<expert_tensor<std::byte> const> tensors, std::size_t slots) {
      for (std::size_t k = 0; k < tensors.size(); ++k)
        for (std::size_t slot = 0; slot < slots; ++slot)
          places_[k].push_back(tensors[k][slot].data());
    };
    from.keep(step);
    add(from.own(), from.owned(from.rank()));
    for (auto const other : from.partners().mirrored_on(from.rank()))
      if (!std::ranges::binary_search(ranks, other))
        add(from.mirror(other, step), from.owned(other));
    for (std::size_t k = 0; k < places_.size(); ++k)
      tensors_.push_back({nullptr, places_[k].size(), from.slot_bytes()[k], from.slot_bytes()[k],
                          places_[k].data()});
  }
  slots_left(slots_left const&) = delete;
  slots_left& operator=(slots_left const&) = delete;

  [[nodiscard]] std::vector<expert_tensor<std::byte>> const& tensors() const { return tensors_; }

 private:
  std::vector<std::vector<std::byte*>> places_;  // [tensors, slots]
  std::vector<expert_tensor<std::byte>> tensors_;
};

/// A barrier.
template <class Comm>
void meet(Comm& comm) {
  auto const here = std::byte{1};
  auto all = std::vector<std::byte>(static_cast<std::size_t>(comm.size()));
  comm.exchange([&](exchange_batch auto& batch) {
    set_label(batch, {.plan = 0x7265636f766572, .round = 1});
    name_values(batch, comm.rank(), comm.size(), std::span{&here, 1}, std::span{all});
  });
}

}  // namespace detail

/// Continues with the remaining ranks. They agree on which ranks are lost, and on the newest step
/// that is complete on all of them. Every expert gets an owner among them. Its parameters,
/// optimizer state and everything else that was mirrored are restored as of that step, from its old
/// owner, or from the mirror of a lost one. If more ranks are lost meanwhile, all of this starts
/// again with the remaining ones.
///
///     auto left = fssdp::survivors{comm};
///     auto const now = fssdp::recover(left, mirror, fssdp::even_owners{},
///                                     [&](fssdp::table_layout const& layout, rank_id rank) {
///       for (auto* memory : {&weights, &moments}) memory->resize(layout.owned(rank).size());
///       return fssdp::bytes_of(weights, moments);
///     });
///     // left.comm(), now.layout, now.step
///
/// @param left   at first of all ranks whose shards are mirrored
/// @param mirror after its finish, which may have thrown: what the rank owned then must not have
///               changed since. Afterwards call `renew` and write; if ranks are lost before that is
///               complete, recover can be called again
/// @param owners owners(distribution, ranks) -> a layout over the remaining ranks, given what each
///               of them has, and their original numbers; the same on all ranks. May be called
///               again
/// @param room   room(layout, rank) -> memory for what this rank owns from now on, [owned,
///               slice_elements] per tensor, with the same tensors as were mirrored; not the memory
///               of the mirrors
/// @param topo   of the original ranks; if empty: all on one node
/// @post every chunk has one owner, and there the bits that it had after that step
/// @cost each chunk whose new owner does not have it is sent once; 49 bytes from each rank to each
///       other one; allocates. It waits at most until the deadline for ranks that do not come, each
///       time
/// @throws state_lost on all ranks, if a rank and its partner are lost, or nothing was mirrored;
///         peer_failed if this rank itself is lost; argument_error; exceptions of owners and room;
///         transport errors if it fails repeatedly although no rank is lost
template <survivable_communicator Comm, class Owners, class Room>
recovered_state recover(survivors<Comm>& left, mirrored_shard& mirror, Owners owners, Room room,
                        topology const& topo = {}) {
  for (auto* state : {&mirror.state(), mirror.old_state()})
    detail::require(state == nullptr || !state->is_under_way(),
                    "recover: a step is being mirrored; expected finish before");
  auto const attempt = [&] {
    left.shrink();
    auto& comm = left.comm();
    auto now = recovered_state{};
    now.step = detail::agreed_step(comm, mirror, left.ranks());
    auto& state = mirror.state();
    auto const& before = state.layout();
    auto const ranks = detail::numbers_of(left.ranks(), state.members());
    auto const has = chunks_left(before, state.partners(), ranks, state.members());
    now.layout = as_table(owners(has, left.ranks()));
    detail::require(now.layout.experts() == before.experts() &&
                        now.layout.slices() == before.slices() && now.layout.ranks() == comm.size(),
                    "recover: owners for ", now.layout.experts(), " experts in ",
                    now.layout.slices(), " slices on ", now.layout.ranks(), " ranks; expected ",
                    before.experts(), " in ", before.slices(), " on ", comm.size());
    auto const plan =
        redistribution{detail::as_whole_slots(has),
                       detail::as_whole_slots(distribution{now.layout}),
                       state.slot_bytes(),
                       topo.ranks() == 0 ? topology{} : topology_of(topo, left.ranks()),
                       {.element_bytes = 1, .schedule = {}}};
    auto const from = detail::slots_left{state, now.step, ranks};
    auto&& memory = room(now.layout, comm.rank());
    auto const to = detail::new_room(detail::tensor_list{memory}, state.slot_bytes(),
                                     now.layout.owned(comm.rank()).size());
    detail::check_aliases("recover", {"the mirror", detail::tensor_list{from.tensors()}.all()},
                          {"the room", detail::tensor_list{to}.all()});
    transfer_between(comm, plan, from.tensors(), to);
    now.bytes = plan.bytes().total;
    detail::meet(comm);  // no rank continues before all can
    return now;
  };
  for (auto attempts = left.comm().size();; --attempts) try {
      return attempt();
    } catch (peer_failed const&) {
      if (attempts == 0) throw;
    } catch (deadline_exceeded const&) {
      if (attempts == 0) throw;
    }
}

}  // namespace fssdp
