// SPDX-License-Identifier: Apache-2.0
/// One rank of a back end: its lanes, its type on the wire, its trace.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory_resource>
#include <span>
#include <stdexcept>

#include "fssdp/comm/on.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/trace/chrome_trace.hpp"
#include "fssdp/trace/trace_recorder.hpp"
#include "trainer.hpp"

namespace moe_gpt {

namespace detail {

template <class Comm, class Lane, class Observe>
[[nodiscard]] run_record train_with_wire(Comm& comm, Lane& lane, options const& chosen,
                                         corpus const& text, fssdp::trace_output const& trace,
                                         Observe const& observe,
                                         std::pmr::memory_resource* memory) {
  switch (chosen.wire) {
    case wire::bf16:
      return train_rank<float, fssdp::bf16>(comm, lane, chosen, text, trace, observe, memory);
    case wire::fp16:
      return train_rank<float, fssdp::fp16>(comm, lane, chosen, text, trace, observe, memory);
    case wire::fp32:
      break;
  }
  return train_rank<float, float>(comm, lane, chosen, text, trace, observe, memory);
}

}  // namespace detail

/// Trains on the rank of a communicator. Its experts move through a lane of their own, behind the
/// computation if that is asked for.
/// @param memory where they lie; it outlives the call
template <class Comm, class Observe>
[[nodiscard]] run_record train_on(
    Comm& comm, options const& chosen, corpus const& text, fssdp::trace_output const& trace,
    Observe const& observe, std::pmr::memory_resource* memory = std::pmr::new_delete_resource()) {
  auto experts = comm.duplicate();
  if (chosen.no_overlap)
    return detail::train_with_wire(comm, experts, chosen, text, trace, observe, memory);
  auto stream = fssdp::host_stream{};
  auto lane = fssdp::on(experts, stream);
  return detail::train_with_wire(comm, lane, chosen, text, trace, observe, memory);
}

inline void write_trace(std::filesystem::path const& file,
                        std::span<fssdp::trace_recorder const> traces) {
  auto out = std::ofstream{file};
  fssdp::write_chrome_trace(out, traces);
  out.close();
  if (!out) throw std::runtime_error{"cannot write " + file.string()};
}

}  // namespace moe_gpt
