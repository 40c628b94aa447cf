// SPDX-License-Identifier: Apache-2.0
/// Experts that are to be saved and loaded: numbers that tell which element of which tensor they
/// are.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "fssdp/checkpoint/load_checkpoint.hpp"
#include "fssdp/checkpoint/save_checkpoint.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "support/dice.hpp"
#include "support/differences.hpp"
#include "support/reversed_layout.hpp"

namespace support {

/// The experts of a model, however they are laid out.
struct stored_model {
  int experts = 1;
  std::vector<fssdp::whole_tensor> tensors;

  [[nodiscard]] std::vector<std::size_t> elements() const {
    auto sizes = std::vector<std::size_t>{};
    for (auto const& tensor : tensors) sizes.push_back(tensor.elements());
    return sizes;
  }
  /// An owner for each slice, at random; ranks may own nothing.
  [[nodiscard]] reversed_layout random_layout(dice& draw) const {
    auto const ranks = draw.between(1, 5);
    auto const slices = draw.chance(40) ? 1 : draw.between(1, 7);
    auto owners = std::vector<fssdp::rank_id>{};
    for (int chunk = 0; chunk < experts * slices; ++chunk)
      owners.emplace_back(draw.between(0, ranks - 1));
    return {ranks, owners, slices};
  }
};

/// Tensors of no elements, of few, and some of more than a block of 1 MiB.
[[nodiscard]] inline stored_model random_model(dice& draw) {
  auto model = stored_model{draw.between(1, 9), {}};
  auto const tensors = draw.between(1, 3);
  for (int k = 0; k < tensors; ++k) {
    auto const rows = static_cast<std::uint64_t>(draw.between(draw.chance(10) ? 0 : 1, 12));
    auto const columns = static_cast<std::uint64_t>(draw.chance(3) ? draw.between(30'000, 40'000)
                                                                   : draw.between(1, 30));
    model.tensors.push_back({"w" + std::to_string(k), {rows, columns}});
  }
  return model;
}

/// The number that element i of a tensor of an expert has: exact in every type up to 1 / 4 of it,
/// and different for most.
template <class T>
[[nodiscard]] T number_of(int group, fssdp::expert_id expert, std::size_t tensor, std::size_t i) {
  auto const mixed = (static_cast<std::uint64_t>(group) * 7919U + expert.index() * 104'729U +
                      tensor * 1'299'709U + i * 2'654'435'761U) >>
                     3U;
  return static_cast<T>(static_cast<float>(static_cast<int>(mixed % 255U) - 127) * 0.25F);
}

/// Calls visit(element, number that belongs there) for the elements that a rank owns.
template <class T, class Visit>
void for_each_stored(stored_model const& model, reversed_layout const& layout, fssdp::rank_id rank,
                     int group, fssdp::expert_buffer<T>& buffer, Visit visit) {
  auto slot = std::size_t{0};
  for (fssdp::chunk_id const chunk : layout.owned(rank)) {
    for (std::size_t k = 0; k < model.tensors.size(); ++k) {
      auto const extent =
          fssdp::slice_extent{model.tensors[k].elements(), chunk.slice, layout.slices()};
      for (std::size_t i = 0; i < extent.elements; ++i)
        visit(buffer.tensors()[k][slot][i], number_of<T>(group, chunk.expert, k, extent.first + i));
    }
    ++slot;
  }
}
template <class T>
[[nodiscard]] fssdp::expert_buffer<T> filled_shard(stored_model const& model,
                                                   reversed_layout const& layout,
                                                   fssdp::rank_id rank, int group) {
  auto buffer = fssdp::make_shard<T>(layout, rank, model.elements());
  for_each_stored(model, layout, rank, group, buffer, [](T& value, T number) { value = number; });
  return buffer;
}
/// The elements that are others than they should be.
template <class T>
[[nodiscard]] differences wrong_elements(stored_model const& model, reversed_layout const& layout,
                                         fssdp::rank_id rank, int group,
                                         fssdp::expert_buffer<T>& buffer) {
  auto wrong = differences{};
  auto n = 0;
  for_each_stored(model, layout, rank, group, buffer, [&](T value, T number) {
    wrong.compare(static_cast<double>(value), static_cast<double>(number), "rank ", rank,
                  ", group ", group, ", element ", n++, " of all that it owns");
  });
  return wrong;
}

/// Saves weights of one type and moments of another: groups 0 + salt and 1 + salt.
template <class Weight, class Moment, fssdp::communicator Comm>
void save_numbers(Comm& comm, stored_model const& model, reversed_layout const& layout,
                  fssdp::save_options const& options, int salt = 0) {
  auto weights = filled_shard<Weight>(model, layout, comm.rank(), salt);
  auto moments = filled_shard<Moment>(model, layout, comm.rank(), 1 + salt);
  auto part = fssdp::saved_part{"experts", layout, comm.rank(), model.tensors};
  part.add("weight", weights).add("moment1", moments);
  (void)fssdp::save_checkpoint(comm, std::span{&part, 1}, options);
}
/// Loads them as other types into another layout, and counts what is wrong.
template <class Weight, class Moment, fssdp::communicator Comm>
[[nodiscard]] differences wrong_when_loaded(Comm& comm, stored_model const& model,
                                            reversed_layout const& layout,
                                            std::filesystem::path const& folder, int salt = 0) {
  auto weights = fssdp::make_shard<Weight>(layout, comm.rank(), model.elements());
  auto moments = fssdp::make_shard<Moment>(layout, comm.rank(), model.elements());
  auto part = fssdp::loaded_part{"experts", layout, comm.rank(), model.tensors};
  part.add("moment1", moments).add("weight", weights);
  auto reader = fssdp::checkpoint_reader{folder};
  fssdp::load_checkpoint(comm, reader, std::span{&part, 1});
  return wrong_elements(model, layout, comm.rank(), salt, weights) +
         wrong_elements(model, layout, comm.rank(), 1 + salt, moments);
}

}  // namespace support
