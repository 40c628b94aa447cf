// SPDX-License-Identifier: Apache-2.0
/// Mirrors what a rank owns of a model, experts and its chunk of the dense parameters, and gets
/// what lost ranks have owned.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "any_survivable.hpp"
#include "checkpoint.hpp"
#include "expert_layouts.hpp"
#include "expert_stream.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/recovery/recover.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/topology/topology_of.hpp"
#include "gpt.hpp"

namespace moe_gpt {

/// The communicator of mirrors, with or without a stream beside the computation.
using mirror_stream = expert_stream<fssdp::communicator_ref>;

namespace detail {

/// Dense chunks as slots: a chunk fills as many as it takes, of the size of an expert's. They lie
/// after the experts of all layers, so that both are mirrored as one step.
struct dense_slots {
  int experts = 0;        ///< of all layers: that many have no dense part
  int slices = 1;         ///< of an expert
  std::size_t owned = 0;  ///< elements that each rank owns of the dense parameters
  int experts_each = 0;   ///< that the chunk of a rank fills, in slices
  std::size_t slot = 0;   ///< elements of a slot, over all of its tensors

  [[nodiscard]] std::size_t slots_each() const {
    return static_cast<std::size_t>(experts_each) * static_cast<std::size_t>(slices);
  }
  /// Experts as they are owned, and the dense chunks of all ranks.
  [[nodiscard]] fssdp::table_layout joined(expert_layouts const& layouts) const {
    auto owners = std::vector<fssdp::rank_id>{};
    for (auto const chunk : fssdp::all_chunks(layouts)) owners.push_back(layouts.owner(chunk));
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(layouts.ranks()))
      owners.insert(owners.end(), slots_each(), rank);
    return {{.ranks = layouts.ranks(), .slices = slices}, std::move(owners)};
  }
  /// The layers of what `joined` has made, with any owners.
  [[nodiscard]] expert_layouts layers(fssdp::table_layout const& all, int layers) const {
    auto by_layer = std::vector<fssdp::table_layout>{};
    auto const per_layer = experts / layers;
    for (int layer = 0; layer < layers; ++layer) {
      auto owners = std::vector<fssdp::rank_id>{};
      for (auto const chunk : fssdp::chunk_range{0, per_layer * slices, slices})
        owners.push_back(
            all.owner({fssdp::expert_id{layer * per_layer + chunk.expert.value()}, chunk.slice}));
      by_layer.push_back({{.ranks = all.ranks(), .slices = slices}, std::move(owners)});
    }
    return expert_layouts{std::move(by_layer)};
  }
  /// The slots of the dense chunks alone, as experts.
  [[nodiscard]] fssdp::table_layout alone(fssdp::table_layout const& all) const {
    auto owners = std::vector<fssdp::rank_id>{};
    for (auto const chunk : fssdp::chunk_range{experts * slices, all.experts() * slices, slices})
      owners.push_back(all.owner(chunk));
    return {{.ranks = all.ranks()}, std::move(owners)};
  }
  /// Owners for what ranks have: experts evenly, and dense slots evenly.
  [[nodiscard]] fssdp::table_layout even_owners(fssdp::distribution const& left) const {
    auto owners = std::vector<fssdp::rank_id>{};
    for (auto const part : {0, 1}) {
      auto const first = part == 0 ? 0 : experts;
      auto const count = part == 0 ? experts : left.experts() - experts;
      auto lists = std::vector<std::vector<fssdp::chunk_id>>{};
      for (auto const rank : fssdp::first_n<fssdp::rank_id>(left.ranks())) {
        auto& list = lists.emplace_back();
        for (auto const chunk : left.slots(rank))
          if ((chunk.expert.value() >= experts) == (part == 1))
            list.push_back({fssdp::expert_id{chunk.expert.value() - first}, chunk.slice});
      }
      auto const even = fssdp::even_owners{}(fssdp::distribution{count, slices, std::move(lists)});
      for (auto const chunk : fssdp::all_chunks(even)) owners.push_back(even.owner(chunk));
    }
    return {{.ranks = left.ranks(), .slices = slices}, std::move(owners)};
  }
  /// Calls visit(slot, tensor, offset there, offset in the chunk, elements) for the pieces of a
  /// chunk.
  template <class Visit>
  void for_each_piece(std::span<std::size_t const> elements, Visit visit) const {
    auto at = std::size_t{0};
    for (std::size_t s = 0; at < owned; ++s)
      for (std::size_t k = 0; k < elements.size() && at < owned; ++k) {
        auto const count = std::min(elements[k], owned - at);
        visit(s, k, at, count);
        at += count;
      }
  }
};

/// Parameters and both moments, whatever they are of.
inline constexpr std::size_t kinds_of_state = 3;

template <class Real>
using state_buffers = std::array<fssdp::expert_buffer<Real>, kinds_of_state>;

template <class Shard>
[[nodiscard]] auto state_of(Shard& shard) {
  return std::array{&shard.weights(), &shard.first_moments(), &shard.second_moments()};
}

}  // namespace detail

/// Parameters and moments of a model are mirrored with partners on other nodes (mirrored_shard);
/// what all ranks have, every rank keeps for the two steps that it may have to go back to. Over all
/// losses of a run there is one of it on a rank.
template <class Real>
class model_mirror {
 public:
  /// @param comm all ranks; outlives it
  /// @param topo of all ranks
  model_mirror(any_survivable& comm, fssdp::topology topo)
      : left_{comm}, first_topo_{std::move(topo)} {}

  /// Between the ranks that are left.
  [[nodiscard]] any_survivable& comm() { return left_.comm(); }
  /// Which ranks these were at first.
  [[nodiscard]] std::span<fssdp::rank_id const> ranks() const { return left_.ranks(); }
  [[nodiscard]] std::vector<fssdp::rank_id> lost() const { return left_.lost(); }
  [[nodiscard]] fssdp::topology topo() const {
    return fssdp::topology_of(first_topo_, left_.ranks());
  }
  /// Where a run goes on when ranks have been lost; none before.
  struct recovered {
    int step = 0;
    expert_layouts layouts;
    std::uint64_t bytes = 0;  ///< that have moved between ranks, all together
  };
  [[nodiscard]] std::optional<recovered> const& goes_on() const { return goes_on_; }

  /// From now on mirrors go through this, until `recover`.
  void through(mirror_stream& stream) { stream_ = &stream; }
  /// A model that is as far as it was when it was mirrored: experts, dense part, predictors.
  /// @pre goes_on(), and it was made for those layouts
  /// @return its step
  [[nodiscard]] int bring(gpt<Real>& model) const {
    auto const experts = detail::state_of(model.arena().shard());
    auto const dense = detail::state_of(model.dense().shard());
    for (std::size_t kind = 0; kind < detail::kinds_of_state; ++kind) {
      auto const to = experts[kind]->tensors();
      auto const from = state_[kind].tensors();
      for (std::size_t k = 0; k < to.size(); ++k)
        for (std::size_t slot = 0; slot < to[k].slots; ++slot)
          std::ranges::copy(from[k][slot], to[k][slot].begin());
      auto const chunk = dense[kind]->tensors().front()[0];
      auto const all = std::span{dense_[kind]};
      auto const first = std::min(model.dense().shard().rank().index() * chunk.size(), all.size());
      auto const mine = all.subspan(first, std::min(chunk.size(), all.size() - first));
      std::ranges::fill(chunk, Real{0});
      std::ranges::copy(mine, chunk.begin());
    }
    auto const& loads = remembered_.at(goes_on_->step);
    for (std::size_t layer = 0; layer < loads.size(); ++layer)
      model.experts().predictor(fssdp::layer_id{layer}).recall(loads[layer]);
    return goes_on_->step;
  }
  /// The model is what is mirrored from now on, and this step of it at once. At first it waits
  /// until there is something to go back to.
  void begin(gpt<Real>& model, int step) {
    auto const is_first = !mirror_.has_value();
    owners_changed(model);
    write(model, step);
    if (is_first) finish();
  }
  /// The owners of experts are others now, or ranks.
  /// @pre nothing is under way
  void owners_changed(gpt<Real>& model) {
    auto const& shard = model.arena().shard();
    sizes_.clear();
    for (auto const& tensor : shard.weights().tensors()) sizes_.push_back(tensor.elements);
    auto const& layouts = model.experts().layouts();
    slots_ = {.experts = layouts.experts(),
              .slices = layouts.slices(),
              .owned = model.dense().shard().weights().tensors().front().elements};
    for (auto const size : sizes_) slots_.slot += size;
    auto const wanted = (slots_.owned + slots_.slot - 1) / slots_.slot;
    auto const slices = static_cast<std::size_t>(slots_.slices);
    slots_.experts_each = static_cast<int>((wanted + slices - 1) / slices);
    for (auto& buffer : staging_) buffer = {slots_.slots_each(), sizes_};
    dense_elements_ = model.dense().layout().elements();
    auto const layout = slots_.joined(layouts);
    auto const partners = fssdp::mirror_partners{topo()};
    auto const state = views(model);
    if (mirror_.has_value())
      mirror_->renew(layout, partners, left_.comm().rank(), state, left_.ranks());
    else
      mirror_.emplace(layout, partners, left_.comm().rank(), state);
    slots_of_[mirror_->state().number()] = slots_;
    while (slots_of_.size() > 3) slots_of_.erase(slots_of_.begin());
  }
  /// Begins to mirror a step.
  void write(gpt<Real>& model, int step) {
    auto const dense = detail::state_of(model.dense().shard());
    for (std::size_t kind = 0; kind < detail::kinds_of_state; ++kind) {
      auto const from = dense[kind]->tensors().front()[0];
      auto const to = staging_[kind].tensors();
      slots_.for_each_piece(
          sizes_, [&](std::size_t slot, std::size_t k, std::size_t at, std::size_t count) {
            std::ranges::copy(from.subspan(at, count), to[k][slot].begin());
          });
    }
    remember(model, step);
    mirror_->write(*stream_, static_cast<std::uint64_t>(step), views(model));
  }
  /// Waits until what has been begun is mirrored: before parameters change.
  void finish() { mirror_->finish(*stream_); }
  [[nodiscard]] double exposed_seconds() const {
    return mirror_.has_value() ? mirror_->exposed_seconds() : 0;
  }
  [[nodiscard]] std::uint64_t bytes_per_step() const {
    return mirror_.has_value() ? mirror_->bytes_per_step() : 0;
  }

  /// Goes on with the ranks that are left. If that fails on the way, it may be called again.
  /// @param before what was mirrored last is as it was, wherever it is
  /// @param layers of the model
  /// @param arrives is called when this rank is to get what it owns from now on
  /// @throws fssdp::state_lost, and all else that fssdp::recover throws
  template <class Arrives>
  void recover(int layers, Arrives arrives) {
    if (mirror_.has_value() && stream_ != nullptr) try {
        mirror_->finish(*stream_);
      } catch (fssdp::error const&) {  // the mirror knows which steps are whole
      }
    stream_ = nullptr;
    if (!mirror_.has_value()) {
      left_.shrink();
      throw fssdp::state_lost{left_.lost().empty() ? fssdp::rank_id{-1} : left_.lost().front(),
                              {},
                              {},
                              "nothing has been mirrored yet"};
    }
    auto next = detail::state_buffers<Real>{};
    auto const room = [&](fssdp::table_layout const& to, fssdp::rank_id rank) {
      arrives();
      for (auto& buffer : next) buffer = {to.owned(rank).size(), sizes_};
      return fssdp::bytes_of(next[0], next[1], next[2]);
    };
    auto const owners = [&](fssdp::distribution const& has, auto const&) {
      return slots_mirrored().even_owners(has);
    };
    auto const now = fssdp::recover(left_, *mirror_, owners, room, first_topo_);
    goes_on_ = recovered{.step = static_cast<int>(now.step),
                         .layouts = slots_mirrored().layers(now.layout, layers),
                         .bytes = now.bytes};
    state_ = std::move(next);
    gather_dense(now.layout);
    std::erase_if(remembered_, [&](auto const& of) { return of.first > goes_on_->step; });
  }

 private:
  /// What this rank owns, as it is mirrored: experts, then the slots of its dense chunk.
  [[nodiscard]] std::vector<fssdp::expert_tensor<std::byte>> views(gpt<Real>& model) {
    auto& shard = model.arena().shard();
    auto const experts = shard.moves();
    auto const dense = fssdp::bytes_of(staging_[0], staging_[1], staging_[2]);
    auto const count = model.experts().layouts().slots(shard.rank());
    places_.resize(experts.size());
    auto all = std::vector<fssdp::expert_tensor<std::byte>>{};
    for (std::size_t t = 0; t < experts.size(); ++t) {
      places_[t].clear();
      for (std::size_t slot = 0; slot < count; ++slot)
        places_[t].push_back(experts[t][slot].data());
      for (std::size_t slot = 0; slot < slots_.slots_each(); ++slot)
        places_[t].push_back(dense[t][slot].data());
      all.push_back({nullptr, places_[t].size(), experts[t].elements, experts[t].elements,
                     places_[t].data()});
    }
    return all;
  }
  void remember(gpt<Real>& model, int step) {
    auto loads = remembered_loads{};
    for (auto const layer : fssdp::first_n<fssdp::layer_id>(model.experts().layers()))
      loads.push_back(model.experts().predictor(layer).memory());
    remembered_[step] = std::move(loads);
    while (remembered_.size() > 2) remembered_.erase(remembered_.begin());
  }
  /// The slots of the owners that ranks go back to: those now, or those before.
  [[nodiscard]] detail::dense_slots const& slots_mirrored() {
    return slots_of_.at(mirror_->state().number());
  }
  /// All ranks get all dense parameters and moments, of which each then owns another part.
  void gather_dense(fssdp::table_layout const& all) {
    auto const& slots = slots_mirrored();
    auto const layout = slots.alone(all);
    auto& comm = left_.comm();
    auto const rank = comm.rank();
    auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout), topo());
    auto const mine = layout.owned(rank).size();
    auto const slot_bytes = slots.slot * sizeof(Real) * detail::kinds_of_state;
    goes_on_->bytes += static_cast<std::uint64_t>(layout.experts()) *
                       static_cast<std::uint64_t>(layout.ranks() - 1) * slot_bytes;
    for (std::size_t kind = 0; kind < detail::kinds_of_state; ++kind) {
      auto here = std::vector<fssdp::expert_tensor<Real const>>{};
      for (auto const& tensor : std::as_const(state_[kind]).tensors()) {
        auto const first = tensor.slots - mine;
        here.push_back({tensor.data + first * tensor.stride, mine, tensor.elements, tensor.stride});
      }
      auto whole = fssdp::make_partials<Real>(plan, rank, sizes_);
      fssdp::sparse_all_gather(comm, plan, here, whole);
      auto& flat = dense_[kind];
      flat.assign(slots.owned * static_cast<std::size_t>(layout.experts()) / slots.slots_each(),
                  Real{0});
      for (std::size_t first = 0, at = 0; at < flat.size();
           first += slots.slots_each(), at += slots.owned)
        slots.for_each_piece(
            sizes_, [&](std::size_t slot, std::size_t k, std::size_t in_chunk, std::size_t count) {
              std::ranges::copy(whole.tensors()[k][first + slot].first(count),
                                flat.begin() + static_cast<std::ptrdiff_t>(at + in_chunk));
            });
      flat.resize(dense_elements_);
    }
  }

  fssdp::survivors<any_survivable> left_;
  fssdp::topology first_topo_;
  mirror_stream* stream_ = nullptr;
  std::optional<fssdp::mirrored_shard> mirror_;
  detail::dense_slots slots_;                              // of the model now
  std::map<std::uint64_t, detail::dense_slots> slots_of_;  // by how often the mirror was renewed
  std::vector<std::size_t> sizes_;                         // of the tensors of a slot
  std::size_t dense_elements_ = 0;                         // without padding
  detail::state_buffers<Real> staging_;                    // the dense chunk, as it is mirrored
  std::vector<std::vector<std::byte*>> places_;            // of all slots of each tensor
  std::map<int, remembered_loads> remembered_;             // [step]: what predictors remembered
  std::optional<recovered> goes_on_;
  detail::state_buffers<Real> state_;                            // recovered: experts, dense slots
  std::array<std::vector<Real>, detail::kinds_of_state> dense_;  // recovered, whole
};

}  // namespace moe_gpt
