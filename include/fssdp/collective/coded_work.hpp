// SPDX-License-Identifier: Apache-2.0
/// Encoding and decoding in the order of a communicator's stream; at once where its memory is host
/// memory.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/codec/payload_codec.hpp"
#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/element/device_encoding.hpp"
#include "fssdp/element/device_sums.hpp"
#include "fssdp/memory/tensor_list.hpp"

namespace fssdp::detail {

/// Rejects a codec without device kernels, where the codec is known only at run time.
/// @throws argument_error
inline void check_codec_of_device(char const* caller, payload_codec const& coder) {
  require(coder.on_devices.has_value(), caller, ": the codec ", coder.name(),
          " on device memory; expected one that has device kernels: int8_codec, fp8_e4m3_codec, "
          "fp8_e5m2_codec or bf16_codec");
}
/// As above, and rejects communicators that cannot encode.
/// @throws argument_error
inline void check_codes(char const* caller, communicator_ref const& comm,
                        payload_codec const& coder) {
  if (comm.in_host_memory()) return;
  check_codec_of_device(caller, coder);
  require(comm.encodes(), caller,
          ": a codec on a communicator without encode(device_encoding); expected one that has it");
}

/// Encodes elements, with error feedback if there is a residual: one float per element.
inline void encode_on(communicator_ref const& comm, payload_codec const& coder,
                      payload_encoder const& with, dtype type, element_range const& from,
                      float* residual, std::span<std::byte> payload) {
  if (!comm.in_host_memory()) {
    if (from.count != 0)
      comm.encode(device_encoding{.code = *coder.on_devices,
                                  .from_type = type,
                                  .elements = from.count,
                                  .from = from.data,
                                  .residual = residual,
                                  .payload = payload.data()});
  } else if (residual != nullptr) {
    coder.encode(with, type, from.data, std::span{residual, from.count}, payload);
  } else {
    coder.encode(with, type, from.data, from.count, payload);
  }
}

/// Decodes elements. On a device this is a sum of one operand.
inline void decode_on(sum_batch& batch, payload_codec const& coder,
                      std::span<std::byte const> payload, dtype type, element_range const& to) {
  if (batch.comm().in_host_memory()) return coder.decode(payload, type, to.data, to.count);
  if (to.count == 0) return;
  batch.begin({.with = {.results = type}}, 1, to, *coder.on_devices);
  batch.add({payload.data(), device_sums::kind::payload});
}

}  // namespace fssdp::detail
