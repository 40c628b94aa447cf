// SPDX-License-Identifier: Apache-2.0
/// Parameters that one device exchanges with its counterparts, every few iterations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "between/exchange.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/hybrid/delayed_exchange.hpp"
#include "fssdp/hybrid/parameter_exchange.hpp"
#include "fssdp/hybrid/synchronization_schedule.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/stream/host_stream.hpp"
#include "fssdp_sim/groups.hpp"

namespace step {

/// By the library's parameter_exchange, of all layers or of fragments in turn, or by its
/// delayed_exchange. All parameters begin with 0, and learn the same number in every iteration,
/// another one in each group: so a parameter whose layer has just been exchanged is the average of
/// these numbers times a factor, which is told.
class parameter_rounds {
 public:
  using layouts_type = fssdp::layer_stack<fssdp::table_layout>;
  using layer_list = std::vector<fssdp::layer_id>;
  /// Of a layer, of the parameters.
  using shard_of_layer = std::function<std::vector<fssdp::expert_tensor<float>>(fssdp::layer_id)>;

  /// What there is of a device, besides its counterparts.
  struct place {
    layouts_type layouts;
    fssdp::rank_id rank;
    std::vector<fssdp::unit_shape> units;  ///< of a chunk
    std::size_t slots;                     ///< of arenas
    fssdp::communicator_ref inside;        ///< its group, past emulated links
    fssdp::communicator_ref gaps;          ///< its counterparts, for staleness gaps
  };

  /// @pre the communicators and the stream outlive it
  parameter_rounds(fssdp::counting<fssdp::communicator_ref>& counted, place at,
                   sim::group_setting const& of, fssdp::host_stream& stream, shard_of_layer shard)
      : counted_{counted},
        at_{std::move(at)},
        rhythm_{of.rhythm},
        shard_{std::move(shard)},
        learned_(static_cast<std::size_t>(at_.layouts.layers())) {
    auto compressor = between::exchange_of(of.method).compressor;
    if (rhythm_.outer == sim::outer::co2)
      delayed_.emplace(counted, at_.layouts, at_.rank, at_.units,
                       fssdp::delayed_exchange_options{.clip = std::numeric_limits<float>::max(),
                                                       .compressor = std::move(compressor),
                                                       .slots = at_.slots,
                                                       .stream = &stream});
    else
      prompt_.emplace(counted, at_.layouts, at_.rank, at_.units,
                      fssdp::parameter_exchange_options{.outer = outer(),
                                                        .compressor = std::move(compressor),
                                                        .slots = at_.slots,
                                                        .stream = &stream});
    for (auto const layer : all_layers()) {
      if (delayed_.has_value()) delayed_->begin(layer, shard_(layer));
      if (prompt_.has_value()) prompt_->begin(layer, shard_(layer));
    }
  }

  /// Parameters have learned their numbers, once more.
  void learn() {
    for (auto& of : learned_) of.now += 1;
  }
  /// Behind the optimizer.
  /// @param count of the iterations that count: the one before the first ends a round, too
  /// @return the layers that have just become equal in all groups
  [[nodiscard]] layer_list end_iteration(int count) {
    auto const every = static_cast<std::uint64_t>(rhythm_.sync_every);
    if (delayed_.has_value()) {
      if (count <= 1 || static_cast<std::uint64_t>(count - 1) % every == 0) end_first_step();
      return static_cast<std::uint64_t>(count) % every == 0 ? end_round() : layer_list{};
    }
    auto const turn = fssdp::staggered{.fragments = rhythm_.fragments,
                                       .period = every,
                                       .delay = static_cast<std::uint64_t>(rhythm_.sync_delay)}(
        every + static_cast<std::uint64_t>(count), std::numeric_limits<std::uint64_t>::max());
    auto crossed = apply(turn.applied);
    if (turn.sent < 0) return crossed;
    for (auto const layer : fragment(turn.sent)) {
      prompt_->start(layer, shard_(layer));
      learned_[layer.index()].sent = learned_[layer.index()].now;
    }
    return rhythm_.sync_delay == 0 ? apply(turn.sent) : crossed;
  }
  /// Waits for all that is under way, so that owners may change. Fragments are applied before their
  /// time, in all groups alike.
  void drain() {
    if (delayed_.has_value()) await_delayed();
    if (prompt_.has_value())
      for (int of = 0; of < rhythm_.fragments; ++of) static_cast<void>(apply(of));
  }
  /// What moves with owners.
  /// @pre nothing is under way when it moves
  [[nodiscard]] std::vector<fssdp::expert_tensor<std::byte>> kept() {
    if (prompt_.has_value()) return fssdp::bytes_of(prompt_->kept(), prompt_->residuals());
    return fssdp::bytes_of(delayed_->kept(), delayed_->residuals());
  }
  void reshard(layouts_type const& layouts) {
    at_.layouts = layouts;
    if (prompt_.has_value()) prompt_->reshard(layouts);
    if (delayed_.has_value()) delayed_->reshard(layouts);
  }
  /// Of parameters that have just been exchanged, over the average of the numbers that they learn.
  [[nodiscard]] double factor(fssdp::layer_id layer) const { return learned_[layer.index()].now; }
  /// That had been sent when it was last waited for: what is under way is not in it.
  [[nodiscard]] std::uint64_t bytes_sent() const { return arrived_bytes_; }

 private:
  /// Multiples of a number, or of the average over groups, that parameters of a layer are made of.
  struct multiples {
    double now = 0;        // as they are in this group
    double anchor = 0;     // as they were in all groups when they were last equal
    double sent = 0;       // what they were when they were sent
    double velocity = 0;   // of the outer update
    double under_way = 0;  // CO2: what has been learned in the round before
  };

  [[nodiscard]] fssdp::index_range<fssdp::layer_id> all_layers() const {
    return fssdp::first_n<fssdp::layer_id>(at_.layouts.layers());
  }
  /// As in moe_gpt: layer l is in fragment l modulo their number.
  [[nodiscard]] layer_list fragment(int of) const {
    auto layers = layer_list{};
    for (auto const layer : all_layers())
      if (layer.value() % rhythm_.fragments == of) layers.push_back(layer);
    return layers;
  }
  [[nodiscard]] fssdp::outer_update outer() const {
    return rhythm_.outer == sim::outer::diloco ? fssdp::diloco : fssdp::outer_update{};
  }
  /// @return the layers of that fragment that were under way
  [[nodiscard]] layer_list apply(int of) {
    auto layers = layer_list{};
    for (auto const layer : of < 0 ? layer_list{} : fragment(of)) {
      if (!prompt_->is_under_way(layer)) continue;
      prompt_->finish(layer, shard_(layer));
      auto& m = learned_[layer.index()];
      auto const by = outer();
      m.velocity = by.momentum * m.velocity + (m.anchor - m.sent);
      m.anchor -= by.rate * (m.anchor - m.sent + by.momentum * m.velocity);
      m.now = m.anchor;
      layers.push_back(layer);
    }
    if (layers.empty()) return layers;
    prompt_->advance();
    arrived_bytes_ = counted_.counts().bytes_sent;  // only one fragment is in flight at a time
    return layers;
  }
  void end_first_step() {
    for (auto const layer : all_layers()) delayed_->first_step(layer, shard_(layer));
  }
  void await_delayed() {
    static_cast<void>(delayed_->kept());
    arrived_bytes_ = counted_.counts().bytes_sent;
  }
  [[nodiscard]] layer_list end_round() {
    await_delayed();
    auto const gap = fssdp::staleness_gap(at_.inside, at_.gaps, delayed_->gap_of_rank());
    auto layers = layer_list{};
    for (auto const layer : all_layers()) {
      delayed_->synchronize(layer, shard_(layer), gap);
      auto& m = learned_[layer.index()];
      auto const before = m.anchor;
      m.anchor += m.under_way / gap;
      m.under_way = m.now - before;
      m.now = m.anchor;
      layers.push_back(layer);
    }
    delayed_->advance();
    return layers;
  }

  fssdp::counting<fssdp::communicator_ref>& counted_;
  place at_;
  sim::group_rhythm rhythm_;
  shard_of_layer shard_;
  std::vector<multiples> learned_;  // [layers]
  std::uint64_t arrived_bytes_ = 0;
  std::optional<fssdp::parameter_exchange> prompt_;
  std::optional<fssdp::delayed_exchange> delayed_;
};

}  // namespace step
