// SPDX-License-Identifier: Apache-2.0
/// A type-erased load predictor.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/placement/load_predictor.hpp"
#include "fssdp/placement/load_window.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

/// Holds a load predictor that is chosen at run time. It is a load predictor itself, and a
/// checkpoint can save it. By default it holds a load_window.
/// @cost of a copy: one allocation
class any_load_predictor {
 public:
  any_load_predictor() : any_load_predictor{load_window{1}} {}
  template <class Predictor>
  requires(!std::same_as<Predictor, any_load_predictor>) &&
      load_predictor<Predictor> any_load_predictor(Predictor predictor)
      : held_{std::make_unique<model<Predictor>>(std::move(predictor))} {}
  any_load_predictor(any_load_predictor const& other) : held_{other.held_->copy()} {}
  any_load_predictor(any_load_predictor&&) = default;
  any_load_predictor& operator=(any_load_predictor other) {
    held_ = std::move(other.held_);
    return *this;
  }
  ~any_load_predictor() = default;

  void push(std::span<std::uint64_t const> now) { held_->push(now); }
  void resize(int experts) { held_->resize(experts); }
  [[nodiscard]] expert_loads predict() const { return held_->predict(); }

  /// @throws argument_error if the predictor has no memory()
  [[nodiscard]] std::vector<std::uint64_t> memory() const { return held_->memory(); }
  void recall(std::span<std::uint64_t const> memory) { held_->recall(memory); }

  friend bool operator==(any_load_predictor const& a, any_load_predictor const& b) {
    return a.held_->equals(*b.held_);
  }

 private:
  struct interface {
    virtual ~interface() = default;
    [[nodiscard]] virtual std::unique_ptr<interface> copy() const = 0;
    virtual void push(std::span<std::uint64_t const> now) = 0;
    virtual void resize(int experts) = 0;
    [[nodiscard]] virtual expert_loads predict() const = 0;
    [[nodiscard]] virtual std::vector<std::uint64_t> memory() const = 0;
    virtual void recall(std::span<std::uint64_t const> memory) = 0;
    [[nodiscard]] virtual bool equals(interface const& other) const = 0;
  };
  template <class Predictor>
  struct model final : interface {
    explicit model(Predictor predictor) : of{std::move(predictor)} {}
    [[nodiscard]] std::unique_ptr<interface> copy() const override {
      return std::make_unique<model>(of);
    }
    void push(std::span<std::uint64_t const> now) override { of.push(now); }
    void resize(int experts) override { of.resize(experts); }
    [[nodiscard]] expert_loads predict() const override {
      auto const& loads = of.predict();
      return {loads.begin(), loads.end()};
    }
    [[nodiscard]] std::vector<std::uint64_t> memory() const override {
      if constexpr (remembering_load_predictor<Predictor>)
        return of.memory();
      else
        throw argument_error{"any_load_predictor: this predictor has no memory(); expected one"};
    }
    void recall(std::span<std::uint64_t const> memory) override {
      if constexpr (remembering_load_predictor<Predictor>)
        of.recall(memory);
      else
        throw argument_error{"any_load_predictor: this predictor has no recall(); expected one"};
    }
    [[nodiscard]] bool equals(interface const& other) const override {
      auto const* const same = dynamic_cast<model const*>(&other);
      return same != nullptr && of == same->of;
    }
    Predictor of;
  };

  std::unique_ptr<interface> held_;
};

static_assert(remembering_load_predictor<any_load_predictor>);

}  // namespace fssdp
