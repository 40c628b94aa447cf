// SPDX-License-Identifier: Apache-2.0
/// Each rank's share of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fssdp/core/index.hpp"
#include "text.hpp"

namespace moe_gpt {

/// Some sequences, one after the other: [sequences * seq] each.
struct byte_batch {
  std::vector<std::uint8_t> inputs;
  std::vector<std::uint8_t> targets;

  void append(sample const& sequence) {
    inputs.insert(inputs.end(), sequence.inputs.begin(), sequence.inputs.end());
    targets.insert(targets.end(), sequence.targets.begin(), sequence.targets.end());
  }
};

/// Consecutive sequences of a batch.
struct batch_slice {
  std::size_t first = 0;
  std::size_t count = 0;
};
/// The part of a batch that is one of some micro-batches, as even as it goes.
[[nodiscard]] constexpr batch_slice slice_of(std::size_t sequences, int micro_batch, int count) {
  auto const at = [&](int m) {
    return sequences * static_cast<std::size_t>(m) / static_cast<std::size_t>(count);
  };
  return {at(micro_batch), at(micro_batch + 1) - at(micro_batch)};
}

/// This rank's share of `count` sequences. Shares are as even as it goes and make up the whole
/// batch, so that a run means the same on any number of ranks; some may be empty.
template <class SequenceAt>
[[nodiscard]] byte_batch share_of(std::size_t count, fssdp::rank_id rank, int ranks,
                                  SequenceAt sequence_at) {
  auto const parts = static_cast<std::size_t>(ranks);
  auto share = byte_batch{};
  for (auto i = count * rank.index() / parts; i < count * (rank.index() + 1) / parts; ++i)
    share.append(sequence_at(i));
  return share;
}

}  // namespace moe_gpt
