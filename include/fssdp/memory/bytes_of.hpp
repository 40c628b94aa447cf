// SPDX-License-Identifier: Apache-2.0
/// Per-expert buffers of any types as bytes, so that they can be moved together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/memory/expert_tensor.hpp"

namespace fssdp {

/// Views the tensors of all buffers as tensors of bytes: `bytes_of(weights, first_moments,
/// second_moments)`. Where slots have a table of places, the views use the tables of the buffers.
/// @cost one allocation; the views are valid as long as the buffers
/// @throws argument_error if a size is too large for std::size_t, or a dtype is invalid
template <tensor_memory... Buffers>
[[nodiscard]] std::vector<expert_tensor<std::byte>> bytes_of(Buffers&... buffers) {
  constexpr auto most = std::numeric_limits<std::size_t>::max() / 2;
  auto all = std::vector<expert_tensor<std::byte>>{};
  all.reserve((tensors_of(buffers).size() + ...));
  auto const append = [&](auto const& tensor) {
    using T = std::remove_pointer_t<decltype(tensor.data)>;
    static_assert(!std::is_const_v<T>, "expected buffers that can be written");
    auto const size = detail::element_size(tensor);
    detail::require(std::max(tensor.elements, tensor.stride) <= most / size,
                    "bytes_of: ", tensor.elements, " elements with a stride of ", tensor.stride,
                    "; expected at most ", most / size);
    all.push_back({static_cast<std::byte*>(static_cast<void*>(tensor.data)), tensor.slots,
                   tensor.elements * size, tensor.stride * size,
                   reinterpret_cast<std::byte* const*>(tensor.places), tensor.offsets});
  };
  auto const append_all = [&](auto const& tensors) {
    for (auto const& tensor : tensors) append(tensor);
  };
  (append_all(tensors_of(buffers)), ...);
  return all;
}

}  // namespace fssdp
