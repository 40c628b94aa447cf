// SPDX-License-Identifier: Apache-2.0
/// Tensors of torch as arguments of functions in this module, read without torch's headers for
/// Python: a tensor of Python's knows the address of the one in C++ (`_cdata`).
#pragma once

#include <ATen/core/Tensor.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fssdp/memory/torch_tensors.hpp"

namespace python {

namespace nb = nanobind;

/// What a tensor of Python's is.
/// @throws nb::type_error if it is none
[[nodiscard]] at::Tensor tensor_of(nb::handle object);
/// The storage that a storage of Python's is.
[[nodiscard]] c10::intrusive_ptr<c10::StorageImpl> storage_of(nb::handle object);

/// The tensors of an expert.
/// @param list (name, tensor), stacked [slots, ...]; or (name, [tensor of each slot], tensor that
///             they are like)
/// @param device where they must be
[[nodiscard]] fssdp::torch_tensors tensors_of(nb::list const& list, c10::Device device);

}  // namespace python

namespace nanobind::detail {

template <>
struct type_caster<at::Tensor> {
  NB_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"))
  bool from_python(handle from, std::uint32_t /*flags*/, cleanup_list* /*cleanup*/) {
    value = python::tensor_of(from);
    return true;
  }
};

}  // namespace nanobind::detail
