// SPDX-License-Identifier: Apache-2.0
/// Evaluates a trained model: its loss on held-out text, and a sample of its own text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "batch.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "gpt.hpp"
#include "head.hpp"
#include "report.hpp"
#include "text.hpp"

namespace moe_gpt {

/// The mean loss per byte on the held-out tenth of the text, in nats.
/// @param most how many sequences of it are used, spread over it; all if it has fewer
/// @param sequences how many go through the model at a time
/// @pre the dense parameters are gathered
template <class Real, fssdp::communicator Comm>
[[nodiscard]] double heldout_loss(Comm& comm, gpt<Real>& model, corpus const& text,
                                  std::size_t most, std::size_t sequences) {
  auto const available = text.held_out_sequences();
  auto const used = std::min(available, most);
  auto sums = std::vector{0.0, 0.0};  // loss, bytes
  for (std::size_t first = 0; first < used; first += sequences) {
    auto const batch =
        share_of(std::min(sequences, used - first), comm.rank(), comm.size(),
                 [&](std::size_t i) { return text.held_out((first + i) * available / used); });
    sums[0] += cross_entropy(batch.targets, model.forward(comm, batch.inputs), 0.0);
    sums[1] += static_cast<double>(batch.targets.size());
  }
  sums = fssdp::all_reduce(comm, sums);
  return sums[0] / sums[1];
}

/// Lets rank 0 write `length` bytes; the other ranks lend it their experts. The text is empty on
/// them.
/// @pre the dense parameters are gathered
template <class Real, fssdp::communicator Comm>
[[nodiscard]] written_text write_text(Comm& comm, gpt<Real>& model, corpus const& text,
                                      std::size_t seq, std::uint64_t seed, std::size_t length) {
  constexpr auto temperature = 0.7;
  auto const writes = comm.rank() == fssdp::rank_id{0};
  auto random = std::mt19937_64{seed};
  auto const start = text.held_out(0).inputs;
  auto const prompt = start.first(std::min<std::size_t>(seq / 2, 48));
  auto bytes = std::vector<std::uint8_t>(prompt.begin(), prompt.end());
  auto window = std::vector<std::uint8_t>{};
  for (std::size_t i = 0; i < length; ++i) {
    if (writes) {
      auto const seen = std::min(seq, bytes.size());
      window.assign(bytes.end() - static_cast<std::ptrdiff_t>(seen), bytes.end());
      window.resize(seq);  // attention is causal: padding does not reach the last byte
    }
    auto const logits = model.forward(comm, window);
    if (!writes) continue;
    auto const last = (std::min(seq, bytes.size()) - 1) * byte_values;
    bytes.push_back(
        draw_byte(std::span<Real const>{logits.subspan(last, byte_values)}, temperature, random));
  }
  if (!writes) return {};
  auto const middle = bytes.begin() + static_cast<std::ptrdiff_t>(prompt.size());
  return {{bytes.begin(), middle}, {middle, bytes.end()}};
}

}  // namespace moe_gpt
