// SPDX-License-Identifier: Apache-2.0
/// Gather and reduction once more, as the documentation says them: one transfer after the other, on
/// plain vectors, with no ranks that run. Elements are doubles, which hold the numbers of every dtype.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "support/any_buffer.hpp"

namespace support {

/// The elements of one tensor of an expert, of a chunk or of a piece.
using values = std::vector<double>;
/// What each rank has of a chunk, where it has any: one tensor.
using chunks_on_ranks = std::map<std::pair<fssdp::rank_id, fssdp::chunk_id>, values>;

/// The element that a chunk has where no piece has come: buffers do not begin with it.
inline constexpr double missing = -30000;

/// What each rank has after a gather of one tensor, in the dtype `to`; `owned` has each chunk at its
/// owner. A transfer copies its piece and nothing else.
[[nodiscard]] inline chunks_on_ranks naive_gather(fssdp::transfer_plan const& plan,
                                                  chunks_on_ranks const& owned, fssdp::dtype to) {
  auto have = chunks_on_ranks{};
  for (auto const& [place, elements] : owned) {
    auto& converted = have[place];  // also where the slice is empty
    for (auto const element : elements) converted.push_back(rounded(to, element));
  }
  for (auto const& t : plan.transfers()) {  // in order of time
    auto const& source = have.at({t.source, t.chunk});
    auto& destination = have[{t.destination, t.chunk}];
    destination.resize(source.size(), rounded(to, missing));
    auto const part = fssdp::piece_extent{source.size(), t.piece, plan.pieces()};
    for (auto i = part.first; i < part.first + part.elements; ++i) destination[i] = source[i];
  }
  return have;
}

/// What arrives of what is sent back: all of it, as it is.
[[nodiscard]] inline values unchanged(fssdp::transfer const&, values const& sent) { return sent; }

/// The gradients of one tensor at the owners, in the dtype `to`; `partials` has each chunk on all that
/// hold its expert, in the dtype `from`. Every piece is summed on its own way; arriving(transfer,
/// sent) is what arrives.
[[nodiscard]] inline chunks_on_ranks naive_reduction(
    fssdp::transfer_plan const& plan, chunks_on_ranks const& partials, fssdp::dtype from,
    fssdp::dtype to,
    std::function<values(fssdp::transfer const&, values const&)> const& arriving = unchanged) {
  auto const sum_type = fssdp::accumulator_of(from);
  auto received = std::map<std::pair<fssdp::rank_id, fssdp::piece_id>,
                           std::map<fssdp::rank_id, values>>{};  // by contributor
  for (auto const& [place, elements] : partials) {
    auto const [rank, chunk] = place;
    for (int piece = 0; piece < plan.pieces(); ++piece) {
      auto const part = fssdp::piece_extent{elements.size(), piece, plan.pieces()};
      auto& own = received[{rank, {chunk, piece}}][rank];
      for (auto i = part.first; i < part.first + part.elements; ++i) own.push_back(elements[i]);
    }
  }
  auto const sum = [&](fssdp::rank_id rank, fssdp::piece_id piece) {
    auto total = values{};
    for (auto const& [contributor, elements] : received.at({rank, piece}))
      for (std::size_t i = 0; i < elements.size(); ++i)
        if (total.size() <= i)
          total.push_back(elements[i]);
        else  // of floats, a double's sum is rounded to what a float's would be
          total[i] = rounded(sum_type, total[i] + elements[i]);
    return total;
  };
  auto const all = plan.transfers();
  for (auto t = all.rbegin(); t != all.rend(); ++t)  // the latest first
    received[{t->source, t->what()}][t->destination] = arriving(*t, sum(t->destination, t->what()));
  auto gradients = chunks_on_ranks{};
  for (auto const chunk : fssdp::chunk_range{0, plan.experts() * plan.slices(), plan.slices()}) {
    auto const owner = plan.owner(chunk);
    auto& of_chunk = gradients[{owner, chunk}];
    for (int piece = 0; piece < plan.pieces(); ++piece)
      for (auto const element : sum(owner, {chunk, piece}))
        of_chunk.push_back(rounded(to, element));
  }
  return gradients;
}

}  // namespace support
