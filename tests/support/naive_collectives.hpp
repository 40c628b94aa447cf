// SPDX-License-Identifier: Apache-2.0
/// Gather and reduction once more, as the documentation says them: one transfer after the other, on
/// plain vectors, with no ranks that run.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace support {

/// The elements of one tensor of an expert, of a chunk or of a piece.
template <class T>
using values = std::vector<T>;
/// What each rank has of a chunk, where it has any: one tensor.
template <class T>
using chunks_on_ranks = std::map<std::pair<fssdp::rank_id, fssdp::chunk_id>, values<T>>;

/// The element that a chunk has where no piece has come: buffers do not begin with it.
inline constexpr double missing = -30000;

/// What each rank has after a gather of one tensor; `owned` has each chunk at its owner. A transfer
/// copies its piece and nothing else.
template <class To, class From>
[[nodiscard]] chunks_on_ranks<To> naive_gather(fssdp::transfer_plan const& plan,
                                               chunks_on_ranks<From> const& owned) {
  auto have = chunks_on_ranks<To>{};
  for (auto const& [place, elements] : owned) {
    auto& converted = have[place];  // also where the slice is empty
    for (auto const element : elements)
      converted.push_back(static_cast<To>(static_cast<double>(element)));
  }
  for (auto const& t : plan.transfers()) {  // in order of time
    auto const& source = have.at({t.source, t.chunk});
    auto& destination = have[{t.destination, t.chunk}];
    destination.resize(source.size(), static_cast<To>(missing));
    auto const part = fssdp::piece_extent{source.size(), t.piece, plan.pieces()};
    for (auto i = part.first; i < part.first + part.elements; ++i) destination[i] = source[i];
  }
  return have;
}

/// What is sent back arrives as it is.
struct unchanged {
  template <class Values>
  [[nodiscard]] Values operator()(fssdp::transfer const&, Values sent) const {
    return sent;
  }
};

/// The gradients of one tensor at the owners; `partials` has each chunk on all that hold its
/// expert. Every piece is summed on its own way; arriving(transfer, sent) is what arrives.
template <class To, class From, class Arriving = unchanged>
[[nodiscard]] chunks_on_ranks<To> naive_reduction(fssdp::transfer_plan const& plan,
                                                  chunks_on_ranks<From> const& partials,
                                                  Arriving arriving = {}) {
  using sum_type = fssdp::accumulator_t<From>;
  auto received = std::map<std::pair<fssdp::rank_id, fssdp::piece_id>,
                           std::map<fssdp::rank_id, values<sum_type>>>{};  // by contributor
  for (auto const& [place, elements] : partials) {
    auto const [rank, chunk] = place;
    for (int piece = 0; piece < plan.pieces(); ++piece) {
      auto const part = fssdp::piece_extent{elements.size(), piece, plan.pieces()};
      auto& own = received[{rank, {chunk, piece}}][rank];
      for (auto i = part.first; i < part.first + part.elements; ++i)
        own.push_back(static_cast<sum_type>(elements[i]));
    }
  }
  auto const sum = [&](fssdp::rank_id rank, fssdp::piece_id piece) {
    auto total = values<sum_type>{};
    for (auto const& [contributor, elements] : received.at({rank, piece}))
      for (std::size_t i = 0; i < elements.size(); ++i)
        if (total.size() <= i)
          total.push_back(elements[i]);
        else
          total[i] += elements[i];
    return total;
  };
  auto const all = plan.transfers();
  for (auto t = all.rbegin(); t != all.rend(); ++t)  // the latest first
    received[{t->source, t->what()}][t->destination] = arriving(*t, sum(t->destination, t->what()));
  auto gradients = chunks_on_ranks<To>{};
  for (auto const chunk : fssdp::chunk_range{0, plan.experts() * plan.slices(), plan.slices()}) {
    auto const owner = plan.owner(chunk);
    auto& rounded = gradients[{owner, chunk}];
    for (int piece = 0; piece < plan.pieces(); ++piece)
      for (auto const element : sum(owner, {chunk, piece}))
        rounded.push_back(static_cast<To>(element));
  }
  return gradients;
}

}  // namespace support
