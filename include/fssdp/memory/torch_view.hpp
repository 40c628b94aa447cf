// SPDX-License-Identifier: Apache-2.0
/// Memory as a tensor of torch that does not own it.
#pragma once

#include "fssdp/memory/torch_tensor.hpp"  // ahead of torch's own headers

#include <ATen/ops/from_blob.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorOptions.h>

#include <cstddef>
#include <cstdint>

namespace fssdp::detail {

/// Elements as a tensor that does not own them.
[[nodiscard]] inline at::Tensor torch_view(void const* data, std::size_t elements,
                                           c10::ScalarType type, c10::Device device) {
  return at::for_blob(const_cast<void*>(data), {static_cast<std::int64_t>(elements)})
      .options(c10::TensorOptions{type}.device(device))
      .target_device(device)
      .make_tensor();
}

}  // namespace fssdp::detail
