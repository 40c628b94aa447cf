// SPDX-License-Identifier: Apache-2.0
/// The real exchange of one device with its counterparts in other groups.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "between/exchange.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/equal_shards.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/stream/host_stream.hpp"
#include "fssdp_sim/groups.hpp"
#include "parameter_rounds.hpp"

namespace step {

/// Where a device meets those of other groups.
struct between_links {
  fssdp::communicator_ref counterparts;  ///< ranks are groups
  // These three do not go over emulated links.
  fssdp::communicator_ref checks;    ///< counterparts, too, while exchanges are under way
  fssdp::communicator_ref inside;    ///< the devices of a group
  fssdp::communicator_ref everyone;  ///< all devices of all groups
  /// Where experts move: what is enqueued after a reduction finds gradients with their owners.
  fssdp::host_stream* moving = nullptr;
};

/// 32-bit gradients of what a device owns, averaged by the library's gradient_exchange on a stream
/// beside; or parameters, in rounds. An emulated expert has 16 bits for each of its parameters; so
/// these are others. An element of a gradient is the load of its expert times a number by chance,
/// another one in every group; what a parameter learns in an iteration is such a number.
class between_device {
 public:
  using layouts_type = fssdp::layer_stack<fssdp::table_layout>;

  /// @param units of a chunk
  /// @param slots of arenas
  between_device(between_links const& through, sim::group_setting const& of,
                 std::vector<fssdp::unit_shape> units, layouts_type const& layouts,
                 fssdp::rank_id rank, std::size_t slots)
      : through_{through},
        counted_{through_.counterparts},
        of_{of},
        layouts_{layouts},
        rank_{rank},
        pattern_(4099) {
    auto elements = std::vector<std::size_t>{};
    for (auto const unit : units) elements.push_back(unit.elements());
    values_ = fssdp::expert_buffer<float>{slots, elements};
    auto const draws = fssdp::counter_random{7};
    for (std::size_t i = 0; i < pattern_.size(); ++i) pattern_[i] = 2 * draws[i] - 1;
    auto options = between::exchange_of(of.method);
    options.slots = slots;
    options.stream = &stream_;
    if (of.rhythm.sync_every == 0) {
      gradients_.emplace(counted_, layouts, rank, std::move(units), std::move(options));
      return;
    }
    rounds_.emplace(counted_,
                    parameter_rounds::place{layouts, rank, std::move(units), slots, through_.inside,
                                            through_.counterparts},
                    of, stream_, [this](fssdp::layer_id layer) { return shard(layer); });
  }
  between_device(between_device const&) = delete;
  between_device& operator=(between_device const&) = delete;
  ~between_device() {
    try {
      through_.moving->synchronize();  // work there has a pointer to this object
      stream_.synchronize();
    } catch (...) {  // work that has failed is over, too
    }
  }

  /// Before an iteration, outside of what is measured: the gradients that it will have, or what its
  /// parameters will have learned.
  /// @param loads [layers] of experts
  void prepare(std::vector<fssdp::expert_loads> const& loads) {
    for (auto const layer : all_layers()) {
      auto slot = std::size_t{0};
      for (auto const chunk : layouts_.layer(layer).owned(rank_)) {
        auto const load = static_cast<float>(loads[layer.index()][chunk.expert.index()]);
        for (auto const& tensor : shard_slot(layer, slot++))
          for (std::size_t i = 0; i < tensor.size(); ++i) {
            auto const value = number(through_.counterparts.rank(), i);
            tensor[i] = gradients_.has_value() ? load * value : tensor[i] + value;
          }
      }
    }
    if (rounds_.has_value()) rounds_->learn();
  }
  /// A layer has gone backward: as soon as its gradients are with their owners, their exchange
  /// begins.
  void start(fssdp::layer_id layer) {
    if (!gradients_.has_value()) return;
    through_.moving->enqueue([this, layer] { gradients_->average(layer, shard(layer)); });
  }
  /// After the last layer; if parameters are exchanged, after the optimizer.
  /// @param counts whether the iteration counts; parameters are exchanged after the warm-up, too
  /// @return the seconds for which the device waits
  double finish(bool counts) {
    auto const begin = clock::now();
    if (gradients_.has_value()) {
      through_.moving->synchronize();
      gradients_->synchronize();
      gradients_->advance();
      crossed_.assign(all_layers().begin(), all_layers().end());
    } else {
      if (counts) ++counted_iterations_;
      crossed_ = rounds_->end_iteration(counted_iterations_);
    }
    return std::chrono::duration<double>(clock::now() - begin).count();
  }
  /// Before owners change, after `finish`: waits for what is still under way.
  void drain() {
    if (rounds_.has_value()) rounds_->drain();
  }
  /// That have been sent so far, and waited for.
  [[nodiscard]] std::uint64_t bytes_sent() const {
    return rounds_.has_value() ? rounds_->bytes_sent() : counted_.counts().bytes_sent;
  }

  /// Counterparts have the same bits after an exchange; of full ones they are averages.
  /// @param loads [layers] of experts, as they were prepared
  /// @throws fssdp::ranks_disagree, std::runtime_error
  void check(std::vector<fssdp::expert_loads> const& loads) {
    for (auto const layer : crossed_) {
      fssdp::require_equal_bits(through_.checks, shard(layer));
      if (of_.method.name != "full") continue;
      auto slot = std::size_t{0};
      for (auto const chunk : layouts_.layer(layer).owned(rank_))
        for (auto const& tensor : shard_slot(layer, slot++)) {
          auto const load = static_cast<double>(loads[layer.index()][chunk.expert.index()]);
          require_average(chunk.expert, tensor,
                          gradients_.has_value() ? load : rounds_->factor(layer));
        }
    }
  }

  /// What moves with owners.
  [[nodiscard]] std::vector<fssdp::expert_tensor<std::byte>> kept() {
    if (gradients_.has_value()) return fssdp::bytes_of(values_, gradients_->kept());
    auto all = fssdp::bytes_of(values_);
    auto const more = rounds_->kept();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// Owners have changed, and that has moved.
  void reshard(layouts_type const& layouts) {
    layouts_ = layouts;
    if (gradients_.has_value()) gradients_->reshard(layouts);
    if (rounds_.has_value()) rounds_->reshard(layouts);
  }

 private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] fssdp::index_range<fssdp::layer_id> all_layers() const {
    return fssdp::first_n<fssdp::layer_id>(layouts_.layers());
  }
  [[nodiscard]] std::vector<fssdp::expert_tensor<float>> shard(fssdp::layer_id layer) {
    return fssdp::layer_shard(layouts_, layer, rank_, values_);
  }
  [[nodiscard]] std::vector<std::span<float>> shard_slot(fssdp::layer_id layer, std::size_t slot) {
    auto tensors = std::vector<std::span<float>>{};
    for (auto const& tensor : shard(layer)) tensors.push_back(tensor[slot]);
    return tensors;
  }
  /// Random, from -1 to 1, and the same in every iteration, so that averages can be checked.
  [[nodiscard]] float number(fssdp::rank_id group, std::size_t element) const {
    return pattern_[(element + 997 * group.index()) % pattern_.size()];
  }
  void require_average(fssdp::expert_id expert, std::span<float const> numbers, double load) const {
    auto const groups = through_.counterparts.size();
    for (auto const at : {std::size_t{0}, numbers.size() / 2, numbers.size() - 1}) {
      auto expected = 0.0;
      for (auto const group : fssdp::first_n<fssdp::rank_id>(groups))
        expected += load * number(group, at) / groups;
      if (!(std::abs(numbers[at] - expected) <= 1e-5 * load))
        throw std::runtime_error{"average of expert " + std::to_string(expert.value()) +
                                 " over groups: " + std::to_string(numbers[at]) + "; expected " +
                                 std::to_string(expected)};
    }
  }

  between_links through_;
  fssdp::counting<fssdp::communicator_ref> counted_;
  sim::group_setting of_;
  layouts_type layouts_;
  fssdp::rank_id rank_;
  std::vector<float> pattern_;
  fssdp::expert_buffer<float> values_;  // gradients or parameters, [slots, elements] per unit
  int counted_iterations_ = 0;
  std::vector<fssdp::layer_id> crossed_;  // in the last iteration: equal in all groups
  fssdp::host_stream stream_;
  std::optional<fssdp::gradient_exchange> gradients_;
  std::optional<parameter_rounds> rounds_;
};

}  // namespace step
