// SPDX-License-Identifier: Apache-2.0
/// A trace sink for profilers that show NVTX 3 ranges beside kernels and copies.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <string>

#include "fssdp/core/index.hpp"
#include "fssdp/trace/trace.hpp"

namespace fssdp {

/// Passes the ranges of one rank on to the profiler under which the program runs, such as Nsight
/// Systems; does nothing without one.
///
///     auto sink = nvtx_sink{comm.rank()};
///     auto const range = trace_range{&sink, compute_track, "forward", {.layer = 3}};
///
/// A rank is a domain, "fssdp rank 3"; a track is a category of it; the layer is the payload. Other
/// numbers are not shown: NVTX takes only what is known when a range begins.
/// @cost without a profiler, one branch at either end of a range; no allocation
class nvtx_sink {
 public:
  using open_range = nvtxRangeId_t;

  explicit nvtx_sink(rank_id rank)
      : domain_{nvtxDomainCreateA(("fssdp rank " + std::to_string(rank.value())).c_str())} {
    for (auto const& track : {compute_track, gather_track, reduce_track, dispatch_track})
      name(track);
  }
  nvtx_sink(nvtx_sink const&) = delete;
  nvtx_sink& operator=(nvtx_sink const&) = delete;
  ~nvtx_sink() { nvtxDomainDestroy(domain_); }

  /// Sets the name that is shown for a track of the caller. Tracks of the library have names
  /// already; tracks without a name are shown as numbers.
  void name(trace_track track) {
    nvtxDomainNameCategoryA(domain_, category(track), track.name.c_str());
  }

  [[nodiscard]] open_range open(traced_work const& work) const noexcept {
    auto about = nvtxEventAttributes_t{};
    about.version = NVTX_VERSION;
    about.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    about.category = category(work.track);
    about.messageType = NVTX_MESSAGE_TYPE_ASCII;
    about.message.ascii = work.name.c_str();
    if (work.numbers.layer.is_known()) {
      about.payloadType = NVTX_PAYLOAD_TYPE_INT64;
      about.payload.llValue = work.numbers.layer.value();
    }
    return nvtxDomainRangeStartEx(domain_, &about);
  }
  void close(open_range const& opened, traced_work const&) const noexcept {
    nvtxDomainRangeEnd(domain_, opened);
  }

 private:
  /// The number of a track: FNV-1a of its name.
  [[nodiscard]] static std::uint32_t category(trace_track track) noexcept {
    auto hash = std::uint32_t{2'166'136'261U};
    for (auto const letter : track.name.view())
      hash = (hash ^ static_cast<unsigned char>(letter)) * 16'777'619U;
    return hash;
  }

  nvtxDomainHandle_t domain_;
};

static_assert(trace_sink<nvtx_sink>);

}  // namespace fssdp
