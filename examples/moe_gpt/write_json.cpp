// SPDX-License-Identifier: Apache-2.0
#include "write_json.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "blas.hpp"
#include "program/write_file.hpp"

namespace moe_gpt {

nlohmann::ordered_json to_json(options const& chosen, run_record const& record) {
  auto steps = nlohmann::ordered_json::array();
  for (auto const& step : record.steps)
    steps.push_back({{"step", step.step},
                     {"loss", step.loss},
                     {"tokens_per_second", step.tokens_per_second},
                     {"load_max_over_mean_ep", step.load_max_over_mean_ep},
                     {"load_max_over_mean", step.load_max_over_mean},
                     {"gathered_bytes", step.gathered_bytes},
                     {"reduced_bytes", step.reduced_bytes},
                     {"moved_bytes", step.moved_bytes},
                     {"bytes_inside_nodes", step.experts.bytes_inside_nodes},
                     {"bytes_between_nodes", step.experts.bytes_between_nodes},
                     {"load_p95", step.experts.load_p95},
                     {"communication_seconds", step.communication_seconds},
                     {"exposed_seconds", step.exposed_seconds},
                     {"replica_slots_peak", step.experts.replica_slots_peak},
                     {"partial_slots_peak", step.experts.partial_slots_peak},
                     {"placements_shrunk", step.experts.placements_shrunk},
                     {"prefetches_put_off", step.experts.prefetches_put_off},
                     {"calibrations_accepted", step.experts.calibrations_accepted},
                     {"calibrations_rejected", step.experts.calibrations_rejected},
                     {"between_bytes", step.between_bytes}});
  auto recoveries = nlohmann::ordered_json::array();
  for (auto const& of : record.recoveries)
    recoveries.push_back({{"lost", of.lost},
                          {"ranks", of.ranks},
                          {"step", of.step},
                          {"steps_again", of.steps_again},
                          {"seconds", of.seconds},
                          {"bytes", of.bytes}});
  return {{"mode", std::string{name_of(chosen.mode)}},
          {"ranks", chosen.ranks},
          {"nodes", chosen.nodes},
          {"experts", chosen.experts},
          {"layers", chosen.layers},
          {"parameters", record.parameters},
          {"heldout_loss", record.heldout_loss},
          {"peak_replica_bytes", record.peak_replica_bytes},
          {"steps", steps},
          {"solver", std::string{name_of(chosen.solver)}},
          {"routing", std::string{name_of(chosen.routing)}},
          {"predict", std::string{name_of(chosen.predict)}},
          {"offload", std::string{name_of(chosen.offload)}},
          {"offloaded_bytes", record.offloaded_bytes},
          {"matrix_products", products_by()},
          {"groups", chosen.groups},
          {"between", chosen.between},
          {"between_start", chosen.between_start},
          {"sync_every", chosen.sync_every},
          {"outer", std::string{name_of(chosen.outer)}},
          {"fragments", chosen.fragments},
          {"sync_delay", chosen.sync_delay},
          {"adapt_every", chosen.adapt_every},
          {"mirror_every", chosen.mirror_every},
          {"mirrored_bytes", record.mirrored_bytes},
          {"mirror_seconds", record.mirror_seconds},
          {"recoveries", recoveries}};
}

void write_json(options const& chosen, run_record const& record) {
  require_directory_of(chosen.json);
  program::write_whole_file(chosen.json, to_json(chosen, record).dump(1) + '\n');
}

}  // namespace moe_gpt
