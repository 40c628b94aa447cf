// SPDX-License-Identifier: Apache-2.0
/// The buffers of one rank, filled with test data, and what must be in them afterwards: plain loops
/// over the placement.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "support/any_buffer.hpp"
#include "support/differences.hpp"
#include "support/random_instance.hpp"
#include "support/small_integers.hpp"

namespace support {

/// The parameter x of an expert, at its owner.
[[nodiscard]] inline double parameter(fssdp::expert_id expert, std::size_t k, std::size_t i) {
  return small_integer({1, expert.index(), k, i});
}
/// The partial gradient y of an expert on one of its holders.
[[nodiscard]] inline double partial(fssdp::rank_id holder, fssdp::expert_id expert, std::size_t k,
                                    std::size_t i) {
  return small_integer({2, holder.index(), expert.index(), k, i});
}
/// The sum of the partial gradients over all holders.
[[nodiscard]] inline double gradient(fssdp::placement const& where, fssdp::expert_id expert,
                                     std::size_t k, std::size_t i) {
  auto sum = 0.0;
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(where.ranks()))
    if (where.holds(rank, expert)) sum += partial(rank, expert, k, i);
  return sum;
}

/// What one rank has of a buffer of any kind, with its types as values.
using any_tensors = std::vector<fssdp::any_tensor>;

template <class Buffer>
[[nodiscard]] any_tensors any_views(Buffer& buffer) {
  auto views = any_tensors{};
  for (auto const& tensor : buffer.tensors()) views.push_back(any_view(tensor));
  return views;
}

/// What the buffers of one rank are filled with, and what must be in them afterwards, whatever
/// buffers they are.
class rank_values {
 public:
  static constexpr double untouched = 99;

  random_instance const& of;
  fssdp::rank_id me;

  rank_values(random_instance const& instance, fssdp::rank_id rank)
      : of{instance},
        me{rank},
        shard_{of_owned(
            [](auto expert, std::size_t k, std::size_t i) { return parameter(expert, k, i); })},
        replicas_{of_experts(of.plan.remote(me), parameter)},
        copies_{of_experts(of.plan.materialized(me), parameter)},
        partials_{of_experts(
            of.plan.materialized(me),
            [&](auto expert, std::size_t k, std::size_t i) { return partial(me, expert, k, i); })},
        gradients_{of_owned([&](auto expert, std::size_t k, std::size_t i) {
          return gradient(of.where, expert, k, i);
        })} {}

  [[nodiscard]] auto owned() const { return of.layout.owned(me); }
  [[nodiscard]] auto held() const { return of.plan.materialized(me); }
  [[nodiscard]] auto remote() const { return of.plan.remote(me); }

 protected:
  void fill(any_tensors const& shard, any_tensors const& partials) const {
    set(shard, shard_);
    set(partials, partials_);
  }
  /// Padding, too.
  static void clear(any_tensors const& tensors) {
    for (auto const& tensor : tensors) {
      auto const elements = std::vector<double>(tensor.elements, untouched);
      for (std::size_t slot = 0; slot < tensor.slots; ++slot) write(tensor, slot, elements);
    }
  }

  [[nodiscard]] differences wrong_replicas(any_tensors const& found) const {
    return wrong_elements(found, replicas_, "replicas");
  }
  [[nodiscard]] differences wrong_copies(any_tensors const& found) const {
    return wrong_elements(found, copies_, "copies");
  }
  [[nodiscard]] differences wrong_inputs(any_tensors const& shard,
                                         any_tensors const& partials) const {
    return wrong_elements(shard, shard_, "shard") + wrong_elements(partials, partials_, "partials");
  }
  /// Padding after short slices must be as it was.
  [[nodiscard]] differences wrong_gradients(any_tensors const& found, double scale,
                                            double added_to) const {
    auto expected = gradients_;
    for (std::size_t k = 0; k < found.size(); ++k)
      for (auto& slot : expected[k]) {
        for (auto& value : slot) value = added_to + scale * value;
        slot.resize(found[k].elements, untouched);
      }
    return wrong_elements(found, expected, "gradients");
  }
  [[nodiscard]] double parameters_times(any_tensors const& gradients) const {
    auto sum = 0.0;
    for (std::size_t k = 0; k < shard_.size(); ++k)
      for (std::size_t slot = 0; slot < shard_[k].size(); ++slot)
        sum += product(shard_[k][slot], read(gradients[k], slot));
    return sum;
  }
  [[nodiscard]] double times_partials(any_tensors const& copies) const {
    auto sum = 0.0;
    for (std::size_t k = 0; k < partials_.size(); ++k)
      for (std::size_t slot = 0; slot < partials_[k].size(); ++slot)
        sum += product(partials_[k][slot], read(copies[k], slot));
    return sum;
  }

 private:
  /// The elements of slots: [tensor][slot][element], without padding.
  using numbers = std::vector<std::vector<std::vector<double>>>;

  /// @param make make(expert, tensor, element)
  template <class Make>
  [[nodiscard]] numbers of_experts(std::span<fssdp::expert_id const> experts, Make make) const {
    auto all = numbers(of.elements.size());
    for (std::size_t k = 0; k < all.size(); ++k)
      for (auto const expert : experts) {
        auto& slot = all[k].emplace_back();
        for (std::size_t i = 0; i < of.elements[k]; ++i) slot.push_back(make(expert, k, i));
      }
    return all;
  }
  template <class Make>
  [[nodiscard]] numbers of_owned(Make make) const {
    auto all = numbers(of.elements.size());
    for (std::size_t k = 0; k < all.size(); ++k)
      for (auto const chunk : owned()) {
        auto& slot = all[k].emplace_back();
        auto const part = fssdp::slice_extent{of.elements[k], chunk.slice, of.layout.slices()};
        for (auto i = part.first; i < part.first + part.elements; ++i)
          slot.push_back(make(chunk.expert, k, i));
      }
    return all;
  }

  static void set(any_tensors const& tensors, numbers const& to) {
    for (std::size_t k = 0; k < to.size(); ++k)
      for (std::size_t slot = 0; slot < to[k].size(); ++slot) write(tensors[k], slot, to[k][slot]);
  }
  /// Of those that are expected: there may be padding after them.
  [[nodiscard]] differences wrong_elements(any_tensors const& found, numbers const& expected,
                                           char const* what) const {
    auto wrong = differences{};
    for (std::size_t k = 0; k < expected.size(); ++k)
      for (std::size_t slot = 0; slot < expected[k].size(); ++slot) {
        auto const& right = expected[k][slot];
        auto there = read(found[k], slot);
        there.resize(right.size());
        if (there != right)
          wrong.compare_all(there, right, "rank ", me, ", ", what, ", tensor ", k, ", slot ", slot);
      }
    return wrong;
  }
  [[nodiscard]] static double product(std::vector<double> const& x, std::vector<double> const& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  }

  numbers shard_;
  numbers replicas_;
  numbers copies_;  // in one piece
  numbers partials_;
  numbers gradients_;
};

/// Shard, replicas, partials and gradients of one rank; all but the shard and the partials hold
/// a value that no result can have. Parameters are in a buffer of Held's where they travel, as partial
/// gradients are; at their owner in one of Owned's.
template <class Held, class Owned>
struct buffers_of_rank : rank_values {
  Owned shard;
  Held replicas;
  Held in_one_piece;
  Held partials;
  Owned gradients;

  void clear_results() {
    clear(any_views(replicas));
    clear(any_views(in_one_piece));
    clear(any_views(gradients));
  }
  /// The elements that are not what a loop over the placement gives.
  [[nodiscard]] differences wrong_replicas() {
    return rank_values::wrong_replicas(any_views(replicas));
  }
  [[nodiscard]] differences wrong_in_one_piece() { return wrong_copies(any_views(in_one_piece)); }
  [[nodiscard]] differences wrong_gradients(double scale = 1, double added_to = 0) {
    return rank_values::wrong_gradients(any_views(gradients), scale, added_to);
  }
  /// What a collective must not write.
  [[nodiscard]] differences wrong_inputs() {
    return rank_values::wrong_inputs(any_views(shard), any_views(partials));
  }
  /// This rank's share of <G x, y>: over all that it holds.
  [[nodiscard]] double gathered_times_partials() { return times_partials(any_views(in_one_piece)); }
  /// This rank's share of <x, G^T y>: over all that it owns.
  [[nodiscard]] double parameters_times_gradients() {
    return parameters_times(any_views(gradients));
  }

 protected:
  buffers_of_rank(rank_values const& whose, Owned its_shard, Held its_replicas, Held its_copies,
                  Held its_partials, Owned its_gradients)
      : rank_values{whose},
        shard{std::move(its_shard)},
        replicas{std::move(its_replicas)},
        in_one_piece{std::move(its_copies)},
        partials{std::move(its_partials)},
        gradients{std::move(its_gradients)} {
    fill(any_views(shard), any_views(partials));
    clear_results();
  }
};

/// Those of types that the compiler knows.
template <fssdp::element T, fssdp::element Master = T>
struct rank_buffers : buffers_of_rank<fssdp::expert_buffer<T>, fssdp::expert_buffer<Master>> {
  using base = buffers_of_rank<fssdp::expert_buffer<T>, fssdp::expert_buffer<Master>>;

  rank_buffers(random_instance const& instance, fssdp::rank_id rank)
      : base{{instance, rank},
             fssdp::make_shard<Master>(instance.layout, rank, instance.elements),
             fssdp::make_replicas<T>(instance.plan, rank, instance.elements),
             fssdp::make_partials<T>(instance.plan, rank, instance.elements),
             fssdp::make_partials<T>(instance.plan, rank, instance.elements),
             fssdp::make_shard<Master>(instance.layout, rank, instance.elements)} {}

  /// Of what was gathered beside the rank's own, where that can be: not where types differ.
  [[nodiscard]] double gathered_times_partials() {
    if constexpr (std::same_as<T, Master>) {
      auto sum = 0.0;
      auto const all = fssdp::view_experts(this->of.plan, this->me, this->shard, this->replicas);
      for (std::size_t slot = 0; slot < all.size(); ++slot)
        for (std::size_t k = 0; k < this->of.elements.size(); ++k)
          for (std::size_t i = 0; i < this->of.elements[k]; ++i)
            sum += from(all[slot].tensors[k][i]) * from(this->partials.tensors()[k][slot][i]);
      return sum;
    } else {
      return base::gathered_times_partials();
    }
  }
};

/// Those of dtypes that are values.
struct any_rank_buffers : buffers_of_rank<any_buffer, any_buffer> {
  any_rank_buffers(random_instance const& instance, fssdp::rank_id rank, fssdp::dtype travels,
                   fssdp::dtype master)
      : buffers_of_rank{{instance, rank},
                        any_shard(instance, rank, master),
                        any_replicas(instance, rank, travels),
                        any_partials(instance, rank, travels),
                        any_partials(instance, rank, travels),
                        any_shard(instance, rank, master)} {}
};

}  // namespace support
