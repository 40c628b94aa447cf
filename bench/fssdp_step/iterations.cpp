// SPDX-License-Identifier: Apache-2.0
// All iterations of a policy.
#include "iterations.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "fssdp/collective/all_gather.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/solver/heterogeneous_sharding.hpp"
#include "fssdp/trace/chrome_trace.hpp"
#include "prediction.hpp"

namespace step {
namespace {

using clock = device::clock;

/// Of all threads of this process.
[[nodiscard]] double processor_seconds() {
  auto used = rusage{};
  ::getrusage(RUSAGE_SELF, &used);
  auto const seconds = [](timeval const& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Slice s of an expert lies with the s-th rank after the one that owns its first.
[[nodiscard]] fssdp::table_layout sliced(fssdp::table_layout const& whole) {
  auto owners = std::vector<fssdp::rank_id>{};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(whole.experts()))
    for (int slice = 0; slice < whole.ranks(); ++slice)
      owners.emplace_back((whole.owner(expert).value() + slice) % whole.ranks());
  return {{.ranks = whole.ranks(), .slices = whole.ranks()}, std::move(owners)};
}

/// The samples between one that was and the next one, as far as a prediction looks back.
void remember_before(device_rank& rank, job const& of, std::optional<std::size_t> last,
                     std::size_t next) {
  constexpr auto window = std::size_t{5};
  auto first = next > window ? next - window : 0;
  if (last.has_value()) first = std::max(first, *last + 1);
  for (auto sample = first; sample < next; ++sample) rank.remember(sample);
  if (next == 0) rank.remember(0);  // there are no earlier loads
  if (of.of.predicts.stale.has_value() && of.which.expects != expectation::none)
    for (std::size_t layer = 0; layer < sim::layer_count(*of.of.loads); ++layer)
      rank.expect(layer, of.of.predicts(*of.of.loads, next, layer));
}

void wait_for_all(fssdp::communicator_ref control) {
  auto const mine = std::uint64_t{0};
  auto all = std::vector<std::uint64_t>(static_cast<std::size_t>(control.size()));
  fssdp::all_gather(control, std::span{&mine, 1}, std::span{all});
}

[[nodiscard]] double sum_of(std::span<device_times const> all, double device_times::*part) {
  auto sum = 0.0;
  for (auto const& one : all) sum += one.*part;
  return sum;
}

/// Means over devices, in times of the real cluster; slots the most.
void take_over(all_iterations& to, job const& of, std::span<device_times const> all) {
  auto& record = to.records.back();
  auto const ranks = all.size();
  auto const mean = [&](double device_times::*part) {
    return sum_of(all, part) / static_cast<double>(ranks);
  };
  auto const slow = of.emulates.slow;
  record.exposed_seconds = mean(&device_times::exposed) / slow;
  record.moving_seconds = mean(&device_times::moving) / slow;
  record.token_seconds = mean(&device_times::tokens) / slow;
  record.solving_seconds = mean(&device_times::solving);
  record.planning_seconds = mean(&device_times::planning);
  record.between_seconds = mean(&device_times::between) / slow;
  if (of.between.has_value() && of.between->of.rhythm.sync_every > 0)
    record.between_seconds = std::ranges::max(all, {}, &device_times::between).between / slow;
  if (of.between.has_value())
    for (auto const& one : all)
      record.between_bytes.push_back(one.between_bytes * of.between->scale);
  for (auto const& one : all) to.replica_slots = std::max(to.replica_slots, one.replica_slots);
  to.bytes = mean(&device_times::expert_bytes) * of.emulates.scale +
             4 * mean(&device_times::token_rows) *
                 static_cast<double>(ranks * of.of.where->rates.token_bytes);
}

}  // namespace

layouts first_owners(job const& of) {
  auto const& where = *of.of.where;
  auto const layers = sim::layer_count(*of.of.loads);
  auto const block = fssdp::as_table(
      fssdp::block_layout{{.experts = where.experts, .ranks = where.topology.ranks()}});
  if (of.which.shards == sim::sharding::blocks)
    return layouts{std::vector(layers, of.which.slices ? sliced(block) : block)};
  auto loads = std::vector<fssdp::expert_loads>{};
  for (std::size_t layer = 0; layer < layers; ++layer)
    loads.push_back(of.of.predicts(*of.of.loads, of.of.samples.front(), layer));
  return layouts{fssdp::heterogeneous_sharding{.overlap = of.of.overlap}(loads, where.topology)};
}

void run_rank(links const& through, device& on, job const& of, shared_work& shared,
              layouts const& first, all_iterations& result) {
  auto me = device_rank{through, on, of, shared, first};
  auto const everyone = through.everyone();
  auto const is_first_rank = everyone.rank() == fssdp::rank_id{0};
  auto last = std::optional<std::size_t>{};
  auto const cores = std::max(1U, std::thread::hardware_concurrency());
  for (std::size_t n = 0; n <= of.of.samples.size(); ++n) {
    auto const counts = n > 0;
    auto const sample = of.of.samples[counts ? n - 1 : 0];
    if (n != 1) remember_before(me, of, last, sample);
    me.prepare(sample);
    wait_for_all(everyone);
    auto const begin = clock::now();
    auto const used = processor_seconds();
    auto times = me.iterate(sample, counts);
    wait_for_all(everyone);
    auto const seconds = std::chrono::duration<double>(clock::now() - begin).count();
    if (is_first_rank || of.ranks_are_processes) times.processor = processor_seconds() - used;
    if (counts) last = sample;
    me.check_between(sample);
    auto all = std::vector<device_times>(static_cast<std::size_t>(through.control.size()));
    fssdp::all_gather(through.control, std::span<device_times const>{&times, 1}, std::span{all});
    if (!is_first_rank) continue;
    if (counts) {
      result.records.push_back({.seconds = seconds / of.emulates.slow, .busy_share = 0});
      result.layers.push_back(me.layers());
      result.last_begin = begin;
      take_over(result, of, all);
      result.records.back().busy_share = sum_of(all, &device_times::processor) / seconds / cores;
    }
    of.iteration_over();
  }
  me.check_shards();
}

measurement summed_up(job const& of, all_iterations const& all) {
  auto const& where = *of.of.where;
  auto result = measurement{
      .policy = std::string{of.which.name},
      .model = std::string{where.model->name},
      .cluster = std::string{where.kind->name},
      .devices = where.topology.ranks(),
      .slots = of.of.slots,
      .layers = where.layers,
      .iterations = all.records,
      .max_over_mean = 0,
      .bytes = all.bytes,
      .replica_bytes = all.replica_slots * static_cast<double>(where.rates.expert_bytes)};
  auto const scale =
      static_cast<double>(where.layers) / static_cast<double>(sim::layer_count(*of.of.loads));
  for (auto& one : result.iterations)
    for (auto part : {&iteration_record::seconds, &iteration_record::between_seconds})
      one.*part *= scale;
  for (auto& one : result.iterations)
    for (auto& bytes : one.between_bytes) bytes *= scale;
  if (of.between.has_value()) result.between = of.between->of;
  auto const count = static_cast<double>(all.layers.size());
  for (auto const& layers : all.layers) {
    auto const predicted = predict(of, layers);
    result.predicted_seconds += predicted.seconds / count;
    result.predicted_planning_seconds += predicted.planning_seconds / count;
    result.max_over_mean += predicted.max_over_mean / count;
    result.predicted_between_seconds += predicted.between.exposed_seconds / count;
    result.predicted_between_bytes += predicted.between.bytes / count;
  }
  return result;
}

void write_timeline(std::filesystem::path const& file,
                    std::span<fssdp::trace_recorder const> traces, clock::time_point begin) {
  auto kept = std::vector<fssdp::trace_recorder>{};
  for (auto const& trace : traces) {
    kept.emplace_back(fssdp::trace_options{.rank = trace.rank(), .capacity = trace.capacity()});
    for (auto const& event : trace.events())
      if (event.begin >= begin) kept.back().record(event);
  }
  auto out = std::ofstream{file};
  fssdp::write_chrome_trace(out, kept);
  if (!out.flush()) throw std::runtime_error{file.string() + ": cannot be written"};
}

}  // namespace step
