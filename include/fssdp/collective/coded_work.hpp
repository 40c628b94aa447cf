// SPDX-License-Identifier: Apache-2.0
/// Payloads made and read in the order of a communicator's stream: at once where its memory is the
/// host's.
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

/// Refuses a codec that devices have no kernels for, where it is known at run time only.
/// @throws argument_error
inline void check_codec_of_device(char const* caller, payload_codec const& coder) {
  require(coder.on_devices.has_value(), caller, ": the codec ", coder.name(),
          " in memory of a device; expected one that devices have kernels for: int8_codec, "
          "fp8_e4m3_codec, fp8_e5m2_codec or bf16_codec");
}
/// The same, and communicators that encode nothing.
/// @throws argument_error
inline void check_codes(char const* caller, communicator_ref const& comm,
                        payload_codec const& coder) {
  if (comm.in_host_memory()) return;
  check_codec_of_device(caller, coder);
  require(comm.encodes(), caller,
          ": a codec over a communicator that offers no encode(device_encoding)");
}

/// Encodes elements, with feedback if there is a residual: a float for each of them.
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

/// Decodes elements: on a device that is a sum of one operand.
inline void decode_on(sum_batch& batch, payload_codec const& coder,
                      std::span<std::byte const> payload, dtype type, element_range const& to) {
  if (batch.comm().in_host_memory()) return coder.decode(payload, type, to.data, to.count);
  if (to.count == 0) return;
  batch.begin({.with = {.results = type}}, 1, to, *coder.on_devices);
  batch.add({payload.data(), device_sums::kind::payload});
}

}  // namespace fssdp::detail
