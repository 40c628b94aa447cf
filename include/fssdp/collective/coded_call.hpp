// SPDX-License-Identifier: Apache-2.0
/// A call of a collective with a codec, ready to run.
#pragma once

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/codec/payload_codec.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"

namespace fssdp::detail {

/// Whether this codec can be used on the memory of a communicator: on a device it needs kernels.
template <class Comm, class Codec>
inline constexpr bool can_code = in_host_memory<Comm> || code_on_devices<Codec>.has_value();

/// A call and the codec that it works with, kept until it has run.
template <class Call, codec Codec>
struct coded_call {
  Call call;
  coded_links<Codec> links;
  payload_codec (*make_coder)(Codec const&);  ///< for the elements of the call

  template <communicator Comm>
  void operator()(Comm& comm) const {
    static_assert(
        in_host_memory<Comm> || coding_communicator<Comm>,
        "this communicator cannot encode on its device: expected one with encode(device_encoding)");
    call.run_coded(communicator_ref{comm}, make_coder(links.codec), links.on);
  }
};
template <class Call, codec Codec>
coded_call(Call, coded_links<Codec>, payload_codec (*)(Codec const&)) -> coded_call<Call, Codec>;

}  // namespace fssdp::detail
