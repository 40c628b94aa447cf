// SPDX-License-Identifier: Apache-2.0
/// A type-erased compressor.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/full_compressor.hpp"

namespace fssdp {

/// Holds any compressor, and has its functions; by default full_compressor.
class any_compressor {
 public:
  any_compressor() : any_compressor{full_compressor{}} {}
  template <class Compressor>
  requires(!std::same_as<Compressor, any_compressor>) &&
      compressor<Compressor> any_compressor(Compressor of)
      : self_{std::make_shared<model<Compressor> const>(std::move(of))} {}

  [[nodiscard]] combination combines(int round) const { return self_->combines(round); }
  [[nodiscard]] std::string description() const { return self_->description(); }
  [[nodiscard]] int rounds() const { return self_->rounds(); }
  [[nodiscard]] std::size_t payload_bytes(unit_shape shape, int round) const {
    return self_->payload_bytes(shape, round);
  }
  [[nodiscard]] std::size_t payload_bytes_after(compression_unit const& unit,
                                                std::span<combined_payload const> before) const {
    return self_->payload_bytes_after(unit, before);
  }
  [[nodiscard]] std::size_t state_elements(unit_shape shape) const {
    return self_->state_elements(shape);
  }
  [[nodiscard]] std::size_t scratch_elements(unit_shape shape) const {
    return self_->scratch_elements(shape);
  }
  [[nodiscard]] bool needs_residual(unit_shape shape) const { return self_->needs_residual(shape); }
  void encode(compression_unit const& unit, std::span<float const> input,
              std::span<combined_payload const> before, std::span<std::byte> payload) const {
    self_->encode(unit, input, before, payload);
  }
  void own(compression_unit const& unit, std::span<combined_payload const> rounds,
           std::span<float> output) const {
    self_->own(unit, rounds, output);
  }
  void decode(compression_unit const& unit, std::span<combined_payload const> rounds,
              std::span<float> output) const {
    self_->decode(unit, rounds, output);
  }

 private:
  struct interface {
    interface() = default;
    interface(interface const&) = delete;
    interface& operator=(interface const&) = delete;
    virtual ~interface() = default;
    [[nodiscard]] virtual combination combines(int) const = 0;
    [[nodiscard]] virtual std::string description() const = 0;
    [[nodiscard]] virtual int rounds() const = 0;
    [[nodiscard]] virtual std::size_t payload_bytes(unit_shape, int) const = 0;
    [[nodiscard]] virtual std::size_t payload_bytes_after(
        compression_unit const&, std::span<combined_payload const>) const = 0;
    [[nodiscard]] virtual std::size_t state_elements(unit_shape) const = 0;
    [[nodiscard]] virtual std::size_t scratch_elements(unit_shape) const = 0;
    [[nodiscard]] virtual bool needs_residual(unit_shape) const = 0;
    virtual void encode(compression_unit const&, std::span<float const>,
                        std::span<combined_payload const>, std::span<std::byte>) const = 0;
    virtual void own(compression_unit const&, std::span<combined_payload const>,
                     std::span<float>) const = 0;
    virtual void decode(compression_unit const&, std::span<combined_payload const>,
                        std::span<float>) const = 0;
  };
  template <class Compressor>
  struct model final : interface {
    explicit model(Compressor value) : of{std::move(value)} {}
    [[nodiscard]] combination combines(int round) const override { return of.combines(round); }
    [[nodiscard]] std::string description() const override { return of.description(); }
    [[nodiscard]] int rounds() const override { return of.rounds(); }
    [[nodiscard]] std::size_t payload_bytes(unit_shape shape, int round) const override {
      return of.payload_bytes(shape, round);
    }
    [[nodiscard]] std::size_t payload_bytes_after(
        compression_unit const& unit, std::span<combined_payload const> before) const override {
      if constexpr (detail::sizes_its_payloads<Compressor>)
        return of.payload_bytes_after(unit, before);
      else
        return of.payload_bytes(unit.shape, static_cast<int>(before.size()));
    }
    [[nodiscard]] std::size_t state_elements(unit_shape shape) const override {
      return of.state_elements(shape);
    }
    [[nodiscard]] std::size_t scratch_elements(unit_shape shape) const override {
      return of.scratch_elements(shape);
    }
    [[nodiscard]] bool needs_residual(unit_shape shape) const override {
      return of.needs_residual(shape);
    }
    void encode(compression_unit const& unit, std::span<float const> input,
                std::span<combined_payload const> before,
                std::span<std::byte> payload) const override {
      of.encode(unit, input, before, payload);
    }
    void own(compression_unit const& unit, std::span<combined_payload const> rounds,
             std::span<float> output) const override {
      of.own(unit, rounds, output);
    }
    void decode(compression_unit const& unit, std::span<combined_payload const> rounds,
                std::span<float> output) const override {
      of.decode(unit, rounds, output);
    }
    Compressor of;
  };

  std::shared_ptr<interface const> self_;
};

}  // namespace fssdp
