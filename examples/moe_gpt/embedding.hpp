// SPDX-License-Identifier: Apache-2.0
/// Bytes to vectors: a learned vector per byte plus one per position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "math.hpp"

namespace moe_gpt {

inline constexpr std::size_t byte_values = 256;

/// The two tables, or their gradients: token [256, d_model], position [seq, d_model].
template <class Real>
struct embedding_tensors {
  std::span<Real> token;
  std::span<Real> position;

  operator embedding_tensors<Real const>() const requires(!std::is_const_v<Real>) {
    return {token, position};
  }
};

/// x [bytes, d_model] is written. `bytes` are sequences of `seq` bytes, one after the other.
template <class Real>
void embed(std::type_identity_t<embedding_tensors<Real const>> tables,
           std::span<std::uint8_t const> bytes, std::size_t seq, std::span<Real> x) {
  auto const d_model = tables.token.size() / byte_values;
  for (std::size_t r = 0; r < bytes.size(); ++r) {
    auto const* const token = tables.token.data() + bytes[r] * d_model;
    auto const* const position = tables.position.data() + (r % seq) * d_model;
    auto* const row = x.data() + r * d_model;
    for (std::size_t i = 0; i < d_model; ++i) row[i] = token[i] + position[i];
  }
}

/// Adds to the gradients of the tables, from dx [bytes, d_model].
template <class Real>
void embed_backward(std::span<std::uint8_t const> bytes, std::size_t seq, input<Real> dx,
                    embedding_tensors<Real> gradients) {
  auto const d_model = gradients.token.size() / byte_values;
  for (std::size_t r = 0; r < bytes.size(); ++r) {
    auto const row = dx.subspan(r * d_model, d_model);
    add<Real>(row, gradients.token.subspan(bytes[r] * d_model, d_model));
    add<Real>(row, gradients.position.subspan((r % seq) * d_model, d_model));
  }
}

}  // namespace moe_gpt
