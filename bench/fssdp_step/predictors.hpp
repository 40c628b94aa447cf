// SPDX-License-Identifier: Apache-2.0
/// Load predictors that only some policies need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/placement/load_predictor.hpp"
#include "fssdp/placement/load_window.hpp"
#include "fssdp/placement/loads.hpp"

namespace step {

/// The mean of the last iterations, updated at intervals: the prediction stays
/// for `interval` iterations.
class interval_window {
 public:
  explicit interval_window(int experts, int interval) : window_{experts}, interval_{interval} {
    predicted_ = window_.predict();
  }

  void push(std::span<std::uint64_t const> now) {
    window_.push(now);
    if (count_ % interval_ == 0) predicted_ = window_.predict();
    ++count_;
  }
  void resize(int experts) {
    window_.resize(experts);
    predicted_ = window_.predict();
  }
  [[nodiscard]] fssdp::expert_loads const& predict() const { return predicted_; }

  friend bool operator==(interval_window const&, interval_window const&) = default;

 private:
  fssdp::load_window window_;
  int interval_;
  int count_ = 0;
  fssdp::expert_loads predicted_;
};
static_assert(fssdp::load_predictor<interval_window>);

/// Expects no tokens at all, whatever has been.
class nothing_expected {
 public:
  explicit nothing_expected(int experts) : none_(static_cast<std::size_t>(experts)) {}

  void push(std::span<std::uint64_t const>) {}
  void resize(int experts) { none_.resize(static_cast<std::size_t>(experts)); }
  [[nodiscard]] fssdp::expert_loads const& predict() const { return none_; }

  friend bool operator==(nothing_expected const&, nothing_expected const&) = default;

 private:
  fssdp::expert_loads none_;
};

/// Expects what it is told to: loads of an iteration that the caller chooses.
class told_loads {
 public:
  explicit told_loads(int experts) : told_(static_cast<std::size_t>(experts)) {}

  void push(std::span<std::uint64_t const>) {}
  void resize(int experts) { told_.resize(static_cast<std::size_t>(experts)); }
  [[nodiscard]] fssdp::expert_loads const& predict() const { return told_; }
  [[nodiscard]] std::vector<std::uint64_t> memory() const { return told_; }
  void recall(std::span<std::uint64_t const> loads) { told_.assign(loads.begin(), loads.end()); }

  friend bool operator==(told_loads const&, told_loads const&) = default;

 private:
  fssdp::expert_loads told_;
};
static_assert(fssdp::remembering_load_predictor<told_loads>);

}  // namespace step
