// SPDX-License-Identifier: Apache-2.0
/// One rank of a back end: its lanes, its type on the wire, its trace.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory_resource>
#include <span>
#include <stdexcept>

#include "expert_lane.hpp"
#include "fssdp/trace/chrome_trace.hpp"
#include "fssdp/trace/trace_recorder.hpp"
#include "trainer.hpp"
#include "wire.hpp"

namespace moe_gpt {

/// Trains on the rank of a communicator. Its experts move through a lane of their own, behind the
/// computation if that is asked for.
/// @param memory where they lie; it outlives the call
template <class Comm, class Observe>
[[nodiscard]] run_record train_on(
    Comm& comm, options const& chosen, corpus const& text, fssdp::trace_output const& trace,
    Observe const& observe, std::pmr::memory_resource* memory = std::pmr::new_delete_resource()) {
  auto experts = comm.duplicate();
  auto lane = expert_lane{experts, chosen.no_overlap ? overlap_rule::off : overlap_rule::on};
  if (chosen.wire == wire::fp32)
    return train_rank<float>(comm, lane, plain_coding{}, chosen, text, trace, observe, memory);
  return train_rank<float>(comm, lane, coded_as(chosen.wire), chosen, text, trace, observe, memory);
}

inline void write_trace(std::filesystem::path const& file,
                        std::span<fssdp::trace_recorder const> traces) {
  auto out = std::ofstream{file};
  fssdp::write_chrome_trace(out, traces);
  out.close();
  if (!out) throw std::runtime_error{"cannot write " + file.string()};
}

}  // namespace moe_gpt
