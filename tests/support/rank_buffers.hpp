// SPDX-License-Identifier: Apache-2.0
/// The buffers of one rank, filled with test data, and what must be in them afterwards: plain loops
/// over the placement.
#pragma once

#include <cstddef>
#include <vector>

#include "fssdp/layout/make_shard.hpp"
#include "fssdp/plan/held.hpp"
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

/// Calls visit(expert, k, i, element) for all elements of a buffer whose slots have these experts.
template <class T, class Experts, class Visit>
void for_each_element(fssdp::expert_buffer<T>& buffer, Experts const& experts, Visit visit) {
  for (std::size_t k = 0; k < buffer.tensors().size(); ++k) {
    auto slot = std::size_t{0};
    for (fssdp::expert_id const expert : experts) {
      auto const elements = buffer.tensors()[k][slot++];
      for (std::size_t i = 0; i < elements.size(); ++i) visit(expert, k, i, elements[i]);
    }
  }
}

/// Shard, replicas, partials and gradients of one rank; all but the shard and the partials hold
/// a value that no result can have.
template <fssdp::element T, fssdp::element Gradient = T>
struct rank_buffers {
  static constexpr double untouched = 99;

  random_instance const& of;
  fssdp::rank_id me;
  fssdp::expert_buffer<T> shard = fssdp::make_shard<T>(of.layout, me, of.elements);
  fssdp::expert_buffer<T> replicas = fssdp::make_replicas<T>(of.plan, me, of.elements);
  fssdp::expert_buffer<T> in_one_piece = fssdp::make_partials<T>(of.plan, me, of.elements);
  fssdp::expert_buffer<T> partials = fssdp::make_partials<T>(of.plan, me, of.elements);
  fssdp::expert_buffer<Gradient> gradients =
      fssdp::make_shard<Gradient>(of.layout, me, of.elements);

  rank_buffers(random_instance const& instance, fssdp::rank_id rank) : of{instance}, me{rank} {
    for_each_element(shard, owned(), [](auto expert, std::size_t k, std::size_t i, T& value) {
      value = to<T>(parameter(expert, k, i));
    });
    for_each_element(partials, held(), [&](auto expert, std::size_t k, std::size_t i, T& value) {
      value = to<T>(partial(me, expert, k, i));
    });
    clear_results();
  }
  void clear_results() {
    auto const clear = [](auto, std::size_t, std::size_t, auto& value) {
      value = to<std::remove_cvref_t<decltype(value)>>(untouched);
    };
    for_each_element(replicas, foreign(), clear);
    for_each_element(in_one_piece, held(), clear);
    for_each_element(gradients, owned(), clear);
  }

  [[nodiscard]] auto owned() const { return of.layout.owned(me); }
  [[nodiscard]] auto held() const { return of.plan.held(me); }
  [[nodiscard]] auto foreign() const { return of.plan.foreign(me); }

  /// How many elements are not what a loop over the placement gives.
  [[nodiscard]] int wrong_replicas() { return wrong_parameters(replicas, foreign()); }
  [[nodiscard]] int wrong_in_one_piece() { return wrong_parameters(in_one_piece, held()); }
  [[nodiscard]] int wrong_gradients(double scale = 1, double added_to = 0) {
    auto wrong = 0;
    for_each_element(gradients, owned(),
                     [&](auto expert, std::size_t k, std::size_t i, Gradient value) {
                       auto const expected = added_to + scale * gradient(of.where, expert, k, i);
                       wrong += from(value) != expected ? 1 : 0;
                     });
    return wrong;
  }
  /// What a collective must not write.
  [[nodiscard]] int wrong_inputs() {
    auto wrong = wrong_parameters(shard, owned());
    for_each_element(partials, held(), [&](auto expert, std::size_t k, std::size_t i, T value) {
      wrong += from(value) != partial(me, expert, k, i) ? 1 : 0;
    });
    return wrong;
  }

  /// This rank's share of <G x, y>: over all that it holds.
  [[nodiscard]] double gathered_times_partials() {
    auto const parameters = fssdp::held(of.plan, me, shard, replicas);
    auto product = 0.0;
    for (std::size_t slot = 0; slot < parameters.size(); ++slot)
      for (std::size_t k = 0; k < of.elements.size(); ++k)
        for (std::size_t i = 0; i < of.elements[k]; ++i)
          product += from(parameters[slot].tensors[k][i]) * from(partials.tensors()[k][slot][i]);
    return product;
  }
  /// This rank's share of <x, G^T y>: over all that it owns.
  [[nodiscard]] double parameters_times_gradients() {
    auto product = 0.0;
    for (std::size_t k = 0; k < of.elements.size(); ++k)
      for (std::size_t slot = 0; slot < owned().size(); ++slot)
        for (std::size_t i = 0; i < of.elements[k]; ++i)
          product += from(shard.tensors()[k][slot][i]) * from(gradients.tensors()[k][slot][i]);
    return product;
  }

 private:
  template <class Experts>
  [[nodiscard]] int wrong_parameters(fssdp::expert_buffer<T>& buffer, Experts const& experts) {
    auto wrong = 0;
    for_each_element(buffer, experts, [&](auto expert, std::size_t k, std::size_t i, T value) {
      wrong += from(value) != parameter(expert, k, i) ? 1 : 0;
    });
    return wrong;
  }
};

}  // namespace support
