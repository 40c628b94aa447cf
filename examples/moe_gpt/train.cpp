// SPDX-License-Identifier: Apache-2.0
// The training loop on threads, for every type on the wire. Another back end would begin here.
#include "train.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fssdp/comm/on.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/core/chrome_trace.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/core/trace_recorder.hpp"
#include "trainer.hpp"

namespace moe_gpt {
namespace {

template <class Comm, class Lane, class Observe>
[[nodiscard]] run_record train_with_wire(Comm& comm, Lane& lane, options const& chosen,
                                         corpus const& text, fssdp::trace_recorder* trace,
                                         Observe const& observe) {
  switch (chosen.wire) {
    case wire::bf16:
      return train_rank<float, fssdp::bf16>(comm, lane, chosen, text, trace, observe);
    case wire::fp16:
      return train_rank<float, fssdp::fp16>(comm, lane, chosen, text, trace, observe);
    case wire::fp32:
      break;
  }
  return train_rank<float, float>(comm, lane, chosen, text, trace, observe);
}

void write_trace(std::filesystem::path const& file,
                 std::vector<fssdp::trace_recorder> const& traces) {
  auto out = std::ofstream{file};
  fssdp::write_chrome_trace(out, traces);
  out.close();
  if (!out) throw std::runtime_error{"cannot write " + file.string()};
}

}  // namespace

run_record train(options const& chosen, corpus const& text,
                 std::function<void(step_record const&)> const& observe) {
  auto result = run_record{};
  auto traces = std::vector<fssdp::trace_recorder>{};
  if (!chosen.trace.empty())
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(chosen.ranks))
      traces.emplace_back(fssdp::trace_options{.rank = rank});
  auto world =
      fssdp::thread_world{{.ranks = chosen.ranks,
                           .deadline = std::chrono::minutes{10},
                           .ports = chosen.rate > 0 ? machine_of(chosen) : fssdp::topology{}}};
  world.run([&](fssdp::thread_communicator& comm) {
    auto experts = comm.duplicate();
    auto* const trace = traces.empty() ? nullptr : &traces[comm.rank().index()];
    auto record = [&] {
      if (chosen.no_overlap) return train_with_wire(comm, experts, chosen, text, trace, observe);
      auto stream = fssdp::host_stream{};
      auto lane = fssdp::on(experts, stream);
      return train_with_wire(comm, lane, chosen, text, trace, observe);
    }();
    if (comm.rank() == fssdp::rank_id{0}) result = std::move(record);
  });
  if (!traces.empty()) write_trace(chosen.trace, traces);
  return result;
}

}  // namespace moe_gpt
