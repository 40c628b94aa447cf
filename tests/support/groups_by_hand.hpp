// SPDX-License-Identifier: Apache-2.0
/// Groups without communicators: what a compressor sends and gets of one unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/full_compressor.hpp"

namespace support {

template <fssdp::compressor Compressor>
class groups_by_hand {
 public:
  using floats = std::vector<float>;

  groups_by_hand(Compressor compressor, fssdp::unit_shape shape, int groups)
      : compressor_{std::move(compressor)},
        shape_{shape},
        states_(static_cast<std::size_t>(groups), floats(compressor_.state_elements(shape))),
        scratch_(compressor_.scratch_elements(shape), -77) {}

  /// All that a step moves.
  void exchange(std::vector<floats> const& inputs) {
    sent_.assign(groups(), {});
    combined_.clear();
    for (int round = 0; round < compressor_.rounds(); ++round) {
      for (std::size_t g = 0; g < groups(); ++g) {
        auto const before = rounds(g);
        auto payload = std::vector<std::byte>(bytes_of(unit(g), before), std::byte{0xa5});
        compressor_.encode(unit(g), inputs[g], before, payload);
        sent_[g].push_back(std::move(payload));
      }
      combine(static_cast<std::size_t>(round));
    }
    own_.clear();
    averages_.clear();
    for (std::size_t g = 0; g < groups(); ++g) {
      auto const all = rounds(g);
      own_.emplace_back(shape_.elements(), -77.0F);
      averages_.emplace_back(shape_.elements(), -77.0F);
      compressor_.own(unit(g), all, own_.back());
      compressor_.decode(unit(g), all, averages_.back());
    }
    ++step_;
  }
  [[nodiscard]] std::size_t groups() const { return states_.size(); }
  [[nodiscard]] floats const& own(std::size_t group) const { return own_[group]; }
  [[nodiscard]] floats const& average(std::size_t group) const { return averages_[group]; }
  [[nodiscard]] floats const& state(std::size_t group) const { return states_[group]; }
  [[nodiscard]] std::vector<std::byte> const& payload(std::size_t group, std::size_t round) const {
    return sent_[group][round];
  }
  void set_state(floats const& state) { states_.assign(groups(), state); }
  void set_key(std::uint64_t key) { key_ = key; }
  [[nodiscard]] std::uint64_t own_key(std::size_t group) const {
    return fssdp::random_key(key_, group);
  }

 private:
  [[nodiscard]] std::size_t bytes_of(fssdp::compression_unit const& unit,
                                     std::vector<fssdp::combined_payload> const& before) const {
    if constexpr (fssdp::detail::sizes_its_payloads<Compressor>)
      return compressor_.payload_bytes_after(unit, before);
    else
      return compressor_.payload_bytes(shape_, static_cast<int>(before.size()));
  }
  [[nodiscard]] fssdp::compression_unit unit(std::size_t group) {
    return {.shape = shape_,
            .shared_key = key_,
            .own_key = own_key(group),
            .step = step_,
            .state = states_[group],
            .scratch = scratch_};
  }
  [[nodiscard]] std::vector<fssdp::combined_payload> rounds(std::size_t group) const {
    auto list = std::vector<fssdp::combined_payload>{};
    for (std::size_t r = 0; r < combined_.size(); ++r)
      list.push_back({.mine = sent_[group][r],
                      .all = combined_[r],
                      .stride = sent_[group][r].size(),
                      .groups = static_cast<int>(groups())});
    return list;
  }
  void combine(std::size_t round) {
    auto all = std::vector<std::byte>{};
    if (compressor_.combines(static_cast<int>(round)) == fssdp::combination::gather) {
      for (auto const& of_group : sent_)
        all.insert(all.end(), of_group[round].begin(), of_group[round].end());
    } else {
      all.resize(sent_[0][round].size());
      for (std::size_t i = 0; i < all.size() / sizeof(float); ++i) {
        auto sum = 0.0F;
        for (auto const& of_group : sent_) sum += fssdp::detail::float_at(of_group[round], i);
        fssdp::detail::put_float(all, i, sum);
      }
    }
    combined_.push_back(std::move(all));
  }

  Compressor compressor_;
  fssdp::unit_shape shape_;
  std::uint64_t key_ = 1;
  std::uint64_t step_ = 0;
  std::vector<floats> states_;
  floats scratch_;
  std::vector<std::vector<std::vector<std::byte>>> sent_;  // [group, round]
  std::vector<std::vector<std::byte>> combined_;           // [round]
  std::vector<floats> own_;
  std::vector<floats> averages_;
};

}  // namespace support
