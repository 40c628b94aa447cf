// SPDX-License-Identifier: Apache-2.0
/// Memory of a dtype that is known at run time. Its elements are read and written as doubles, which
/// hold the numbers of every dtype: what checks them is compiled once, not for each type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/core/dtype.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "support/random_instance.hpp"

namespace support {

/// What a number becomes as an element of a dtype.
[[nodiscard]] inline double rounded(fssdp::dtype type, double value) {
  return fssdp::with_element(type, [&]<class T>(std::type_identity<T>) {
    return static_cast<double>(static_cast<T>(value));
  });
}

/// The elements of a slot.
template <class Void>
[[nodiscard]] std::vector<double> read(fssdp::basic_any_tensor<Void> const& tensor,
                                       std::size_t slot) {
  return fssdp::with_element(tensor.type, [&]<class T>(std::type_identity<T>) {
    auto const* const from = static_cast<T const*>(tensor.data) + slot * tensor.stride;
    auto values = std::vector<double>(tensor.elements);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(from[i]);
    return values;
  });
}
/// Sets as many elements of a slot as there are values.
inline void write(fssdp::any_tensor const& tensor, std::size_t slot,
                  std::span<double const> values) {
  fssdp::with_element(tensor.type, [&]<class T>(std::type_identity<T>) {
    auto* const to = static_cast<T*>(tensor.data) + slot * tensor.stride;
    for (std::size_t i = 0; i < values.size(); ++i) to[i] = static_cast<T>(values[i]);
  });
}

/// A tensor of any kind, with its type as a value.
template <class T>
[[nodiscard]] auto any_view(fssdp::expert_tensor<T> const& tensor) {
  return fssdp::any_tensor_of(tensor);
}
template <class Void>
[[nodiscard]] auto any_view(fssdp::basic_any_tensor<Void> const& tensor) {
  return tensor;
}

/// Tensors of bytes, as tensors of elements.
[[nodiscard]] inline std::vector<fssdp::any_tensor> as_elements(
    std::span<fssdp::expert_tensor<std::byte> const> bytes, fssdp::dtype type) {
  auto const size = fssdp::bytes_of(type);
  auto tensors = std::vector<fssdp::any_tensor>{};
  for (auto const& tensor : bytes)
    tensors.push_back(
        {type, tensor.data, tensor.slots, tensor.elements / size, tensor.stride / size});
  return tensors;
}

/// Sets all elements of a buffer of any kind, slot by slot, to what next() gives.
template <class Buffer, class Next>
void fill(Buffer& buffer, Next next) {
  for (auto const& tensor : buffer.tensors())
    for (std::size_t slot = 0; slot < tensor.slots; ++slot) {
      auto values = std::vector<double>(tensor.elements);
      for (auto& value : values) value = next();
      write(any_view(tensor), slot, values);
    }
}

/// What expert_buffer is where the compiler knows the type: per tensor [slots, elements], zero at
/// first. Moves, does not copy.
class any_buffer {
 public:
  any_buffer() = default;
  any_buffer(fssdp::dtype type, std::size_t slots, std::span<std::size_t const> elements)
      : type_{type}, bytes_{slots, in_bytes(type, elements)} {
    tensors_ = as_elements(bytes_.tensors(), type);
  }

  [[nodiscard]] fssdp::dtype type() const { return type_; }
  /// All tensors, to be written or not: tests fill what they hand over as constant.
  [[nodiscard]] std::span<fssdp::any_tensor const> tensors() const { return tensors_; }
  /// The same memory, for what moves bytes.
  [[nodiscard]] fssdp::expert_buffer<std::byte>& bytes() { return bytes_; }

  friend bool operator==(any_buffer const& a, any_buffer const& b) {
    return std::ranges::equal(a.tensors_, b.tensors_, [](auto const& x, auto const& y) {
      return std::ranges::equal(all_bytes(x), all_bytes(y));
    });
  }

 private:
  [[nodiscard]] static std::vector<std::size_t> in_bytes(fssdp::dtype type,
                                                         std::span<std::size_t const> elements) {
    auto sizes = std::vector<std::size_t>{};
    for (auto const count : elements) sizes.push_back(count * fssdp::bytes_of(type));
    return sizes;
  }
  [[nodiscard]] static std::span<std::byte const> all_bytes(fssdp::any_tensor const& tensor) {
    return {static_cast<std::byte const*>(tensor.data),
            tensor.slots * tensor.stride * fssdp::bytes_of(tensor.type)};
  }

  fssdp::dtype type_ = fssdp::dtype::fp32;
  fssdp::expert_buffer<std::byte> bytes_;
  std::vector<fssdp::any_tensor> tensors_;
};

/// A shard of an instance, as make_shard makes them.
[[nodiscard]] inline any_buffer any_shard(random_instance const& of, fssdp::rank_id rank,
                                          fssdp::dtype type) {
  return {type, of.layout.owned(rank).size(), fssdp::slice_sizes(of.elements, of.layout.slices())};
}
/// As make_replicas.
[[nodiscard]] inline any_buffer any_replicas(random_instance const& of, fssdp::rank_id rank,
                                             fssdp::dtype type) {
  return {type, of.plan.remote(rank).size(), of.elements};
}
/// As make_partials.
[[nodiscard]] inline any_buffer any_partials(random_instance const& of, fssdp::rank_id rank,
                                             fssdp::dtype type) {
  return {type, of.plan.materialized(rank).size(), of.elements};
}

}  // namespace support
