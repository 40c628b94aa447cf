// SPDX-License-Identifier: Apache-2.0
/// How loads are predicted.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "fssdp/placement/load_average.hpp"
#include "fssdp/placement/load_predictor.hpp"
#include "fssdp/placement/load_window.hpp"
#include "options.hpp"

namespace moe_gpt {

/// A load predictor, as chosen on the command line.
class load_rule {
 public:
  explicit load_rule(int experts, prediction which = prediction::mean) {
    if (which == prediction::average)
      expects_ = fssdp::load_average{experts};
    else
      expects_ = fssdp::load_window{experts};
  }

  void push(std::span<std::uint64_t const> now) {
    std::visit([&](auto& expects) { expects.push(now); }, expects_);
  }
  void resize(int experts) {
    std::visit([&](auto& expects) { expects.resize(experts); }, expects_);
  }
  [[nodiscard]] fssdp::expert_loads const& predict() const {
    return std::visit(
        [](auto const& expects) -> auto const& { return expects.predict(); }, expects_);
  }

  [[nodiscard]] std::vector<std::uint64_t> memory() const {
    return std::visit([](auto const& expects) { return expects.memory(); }, expects_);
  }
  void recall(std::span<std::uint64_t const> memory) {
    std::visit([&](auto& expects) { expects.recall(memory); }, expects_);
  }

  friend bool operator==(load_rule const&, load_rule const&) = default;

 private:
  std::variant<fssdp::load_window, fssdp::load_average> expects_{fssdp::load_window{1}};
};

static_assert(fssdp::remembering_load_predictor<load_rule>);

}  // namespace moe_gpt
