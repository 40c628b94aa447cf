// SPDX-License-Identifier: Apache-2.0
/// The buffers of one rank, filled with test data, and what must be in them afterwards: plain loops
/// over the placement.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <ostream>
#include <span>
#include <vector>

#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/layout/make_shard.hpp"
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

/// Calls visit(expert, k, i, element) for all elements of a buffer whose slots have these experts.
template <class T, class Visit>
void for_each_element(fssdp::expert_buffer<T>& buffer, std::span<fssdp::expert_id const> experts,
                      Visit visit) {
  for (std::size_t k = 0; k < buffer.tensors().size(); ++k)
    for (std::size_t slot = 0; slot < experts.size(); ++slot) {
      auto const elements = buffer.tensors()[k][slot];
      for (std::size_t i = 0; i < elements.size(); ++i) visit(experts[slot], k, i, elements[i]);
    }
}
/// The same for a shard, whose slots have chunks of experts of the given sizes; i counts from the
/// beginning of the whole tensor. Padding is left out.
template <class T, class Visit>
void for_each_element(fssdp::expert_buffer<T>& shard, std::span<fssdp::chunk_id const> chunks,
                      std::span<std::size_t const> sizes, int slices, Visit visit) {
  for (std::size_t k = 0; k < sizes.size(); ++k)
    for (std::size_t slot = 0; slot < chunks.size(); ++slot) {
      auto const part = fssdp::slice_extent{sizes[k], chunks[slot].slice, slices};
      for (std::size_t i = 0; i < part.elements; ++i)
        visit(chunks[slot].expert, k, part.first + i, shard.tensors()[k][slot][i]);
    }
}

/// Shard, replicas, partials and gradients of one rank; all but the shard and the partials hold
/// a value that no result can have. Parameters are T where they travel, as partial gradients are;
/// at their owner they are Master.
template <fssdp::element T, fssdp::element Master = T>
struct rank_buffers {
  static constexpr double untouched = 99;

  random_instance const& of;
  fssdp::rank_id me;
  fssdp::expert_buffer<Master> shard = fssdp::make_shard<Master>(of.layout, me, of.elements);
  fssdp::expert_buffer<T> replicas = fssdp::make_replicas<T>(of.plan, me, of.elements);
  fssdp::expert_buffer<T> in_one_piece = fssdp::make_partials<T>(of.plan, me, of.elements);
  fssdp::expert_buffer<T> partials = fssdp::make_partials<T>(of.plan, me, of.elements);
  fssdp::expert_buffer<Master> gradients = fssdp::make_shard<Master>(of.layout, me, of.elements);

  rank_buffers(random_instance const& instance, fssdp::rank_id rank) : of{instance}, me{rank} {
    for_each_owned(shard, [](auto expert, std::size_t k, std::size_t i, Master& value) {
      value = to<Master>(parameter(expert, k, i));
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
    for_each_element(replicas, remote(), clear);
    for_each_element(in_one_piece, held(), clear);
    for (auto const& tensor : gradients.tensors())  // padding, too
      std::fill_n(tensor.data, tensor.slots * tensor.stride, to<Master>(untouched));
  }

  [[nodiscard]] auto owned() const { return of.layout.owned(me); }
  [[nodiscard]] auto held() const { return of.plan.materialized(me); }
  [[nodiscard]] auto remote() const { return of.plan.remote(me); }

  /// The elements that are not what a loop over the placement gives.
  [[nodiscard]] differences wrong_replicas() {
    return wrong_parameters(replicas, remote(), "replica");
  }
  [[nodiscard]] differences wrong_in_one_piece() {
    return wrong_parameters(in_one_piece, held(), "copy");
  }
  [[nodiscard]] differences wrong_gradients(double scale = 1, double added_to = 0) {
    auto wrong = written_padding();
    for_each_owned(gradients, [&](auto expert, std::size_t k, std::size_t i, Master value) {
      wrong.compare(from(value), added_to + scale * gradient(of.where, expert, k, i),
                    place("gradient", expert, k, i));
    });
    return wrong;
  }
  /// What a collective must not write.
  [[nodiscard]] differences wrong_inputs() {
    auto wrong = differences{};
    for_each_owned(shard, [&](auto expert, std::size_t k, std::size_t i, Master value) {
      wrong.compare(from(value), parameter(expert, k, i), place("shard", expert, k, i));
    });
    for_each_element(partials, held(), [&](auto expert, std::size_t k, std::size_t i, T value) {
      wrong.compare(from(value), partial(me, expert, k, i), place("partial", expert, k, i));
    });
    return wrong;
  }

  /// This rank's share of <G x, y>: over all that it holds.
  [[nodiscard]] double gathered_times_partials() {
    auto product = 0.0;
    auto const add = [&](auto const& parameters) {
      for (std::size_t slot = 0; slot < held().size(); ++slot)
        for (std::size_t k = 0; k < of.elements.size(); ++k)
          for (std::size_t i = 0; i < of.elements[k]; ++i)
            product += from(parameters(slot, k)[i]) * from(partials.tensors()[k][slot][i]);
    };
    if constexpr (std::same_as<T, Master>) {
      auto const all = fssdp::view_experts(of.plan, me, shard, replicas);
      add([&](std::size_t slot, std::size_t k) { return all[slot].tensors[k]; });
    } else {
      add([&](std::size_t slot, std::size_t k) { return in_one_piece.tensors()[k][slot]; });
    }
    return product;
  }
  /// This rank's share of <x, G^T y>: over all that it owns.
  [[nodiscard]] double parameters_times_gradients() {
    auto product = 0.0;
    for_each_owned(gradients, [&](auto expert, std::size_t k, std::size_t i, Master value) {
      product += parameter(expert, k, i) * from(value);
    });
    return product;
  }

 private:
  template <class Visit>
  void for_each_owned(fssdp::expert_buffer<Master>& buffer, Visit visit) const {
    for_each_element(buffer, owned(), of.elements, of.layout.slices(), visit);
  }
  /// Where an element is that differs; written out only then.
  struct element_place {
    fssdp::rank_id rank;
    char const* of;
    fssdp::expert_id expert;
    std::size_t tensor;
    std::size_t element;

    friend std::ostream& operator<<(std::ostream& out, element_place const& at) {
      return out << "rank " << at.rank.value() << ", " << at.of << " of expert "
                 << at.expert.value() << ", tensor " << at.tensor << ", element " << at.element;
    }
  };
  [[nodiscard]] element_place place(char const* what, fssdp::expert_id expert, std::size_t k,
                                    std::size_t i) const {
    return {me, what, expert, k, i};
  }
  /// Elements of gradients behind short slices that have been written.
  [[nodiscard]] differences written_padding() {
    auto written = 0L;
    for (auto const& tensor : gradients.tensors())
      for (std::size_t i = 0; i < tensor.slots * tensor.stride; ++i)
        written += from(tensor.data[i]) != untouched ? 1 : 0;
    for_each_owned(gradients, [&](auto, std::size_t, std::size_t, Master value) {
      written -= from(value) != untouched ? 1 : 0;
    });
    auto wrong = differences{};
    wrong.compare(written, 0L, "rank ", me, ", elements written behind the gradients");
    return wrong;
  }

  [[nodiscard]] differences wrong_parameters(fssdp::expert_buffer<T>& buffer,
                                             std::span<fssdp::expert_id const> experts,
                                             char const* what) {
    auto wrong = differences{};
    for_each_element(buffer, experts, [&](auto expert, std::size_t k, std::size_t i, T value) {
      wrong.compare(from(value), parameter(expert, k, i), place(what, expert, k, i));
    });
    return wrong;
  }
};

}  // namespace support
