// SPDX-License-Identifier: Apache-2.0
/// Tensors of torch as the memory of experts, in place: parameters and gradients as modules have
/// them.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/memory/torch_dtype.hpp"
#include "fssdp/memory/torch_tensor.hpp"

namespace fssdp {

/// The tensors of an expert, as a buffer for collectives (any_tensors.hpp). Each tensor is stacked,
/// or given separately for each slot:
///
///     auto weights = fssdp::torch_tensors{};
///     weights.add("w1", layer.w1);                     // [slots, ...], one parameter for all
///     weights.add("w2", {expert0.w2, expert1.w2});     // a parameter of each, as in a ModuleList
///     fssdp::sparse_all_gather(comm, plan, weights, replicas);
///
/// Nothing is copied, and the tensors are kept alive. Autograd does not see what collectives write:
/// see mark_written.
class torch_tensors {
 public:
  /// @param device the device of all tensors, with its index: that of the communicator
  explicit torch_tensors(c10::Device device = c10::kCPU) : device_{device} {}
  torch_tensors(torch_tensors&&) = default;
  torch_tensors& operator=(torch_tensors&&) = default;
  torch_tensors(torch_tensors const&) = delete;  // the views point into this object
  torch_tensors& operator=(torch_tensors const&) = delete;
  ~torch_tensors() = default;

  /// Adds one tensor for all slots: [slots, ...]. Each slot is contiguous; slots need not be
  /// adjacent.
  /// @param name for errors
  /// @throws argument_error if it is on another device, not dense, of a type without a dtype, has
  ///         no dimension, or if a slot is not contiguous
  torch_tensors& add(std::string_view name, at::Tensor const& stacked) {
    check(name, stacked);
    detail::require(stacked.dim() > 0, name,
                    ": a tensor without dimensions; expected [slots, ...]");
    auto elements = std::int64_t{1};
    for (auto d = stacked.dim() - 1; d > 0; --d) {
      require_contiguous(stacked.size(d) <= 1 || stacked.stride(d) == elements, name, stacked);
      elements *= stacked.size(d);
    }
    auto const slots = stacked.size(0);
    auto const stride = slots > 1 ? stacked.stride(0) : elements;
    detail::require(stride >= elements, name, ": slots of ", elements, " elements, ", stride,
                    " apart; expected ", elements, " or more");
    views_.push_back({dtype_of_scalar_type(stacked.scalar_type(), name), stacked.data_ptr(),
                      static_cast<std::size_t>(slots), static_cast<std::size_t>(elements),
                      static_cast<std::size_t>(stride)});
    kept_.push_back(stacked);
    return *this;
  }

  /// Adds a tensor for each slot, all of the same size and type.
  /// @param name for errors, which also name the slot
  /// @param like a tensor with that size and type, for a rank that may have no slots
  /// @throws argument_error if one is on another device, not contiguous, or differs from the first;
  ///         if there are no slots and no `like`
  torch_tensors& add(std::string_view name, std::span<at::Tensor const> slots,
                     at::Tensor const& like = {}) {
    detail::require(!slots.empty() || like.defined(), name,
                    ": no slots, and no `like`; expected one of both");
    auto const& first = slots.empty() ? like : slots.front();
    auto& places = places_.emplace_back();
    for (auto const& slot : slots) {
      auto const named = detail::text(name, " of slot ", places.size());
      check(named, slot);
      require_contiguous(slot.is_contiguous(), named, slot);
      detail::require(slot.numel() == first.numel() && slot.scalar_type() == first.scalar_type(),
                      named, ": ", slot.numel(), " elements of ", c10::toString(slot.scalar_type()),
                      "; expected ", first.numel(), " of ", c10::toString(first.scalar_type()),
                      ", as the first");
      places.push_back(slot.data_ptr());
    }
    views_.push_back({.type = dtype_of_scalar_type(first.scalar_type(), name),
                      .slots = slots.size(),
                      .elements = static_cast<std::size_t>(first.numel()),
                      .places = places.data()});
    kept_.insert(kept_.end(), slots.begin(), slots.end());
    return *this;
  }
  torch_tensors& add(std::string_view name, std::initializer_list<at::Tensor> slots) {
    return add(name, std::span{slots.begin(), slots.size()});
  }

  [[nodiscard]] std::span<any_tensor const> tensors() const { return views_; }

  /// Tells autograd that the tensors were written, after a collective has done so: using older
  /// saved values of them then raises torch's own error.
  void mark_written() const {
    for (auto const& tensor : kept_)
      if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }

 private:
  void check(std::string_view name, at::Tensor const& tensor) const {
    detail::require(tensor.defined(), name, ": an undefined tensor; expected one with memory");
    detail::require(tensor.layout() == c10::kStrided, name, ": not a dense tensor; expected one");
    detail::require(tensor.device() == device_, name, ": a tensor on ", tensor.device().str(),
                    "; expected ", device_.str());
  }
  static void require_contiguous(bool is, std::string_view name, at::Tensor const& tensor) {
    if (is) return;
    detail::require(false, name, " is not contiguous: sizes ", list(tensor.sizes()), ", strides ",
                    list(tensor.strides()), "; expected .contiguous()");
  }
  [[nodiscard]] static std::string list(at::IntArrayRef numbers) {
    auto text = std::string{"["};
    for (auto const number : numbers)
      text += (text.size() > 1 ? ", " : "") + std::to_string(number);
    return text + "]";
  }

  c10::Device device_;
  std::vector<any_tensor> views_;
  std::vector<std::vector<void*>> places_;
  std::vector<at::Tensor> kept_;
};

static_assert(any_memory<torch_tensors>);

}  // namespace fssdp
