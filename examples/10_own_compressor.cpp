// SPDX-License-Identifier: Apache-2.0
// A compressor of your own for gradients between groups: one bit per element, and one float. Four
// groups look for the mean of four targets; each group knows only one of them.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "fssdp/comm/thread.hpp"
#include "fssdp/fssdp.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "program/standard_output.hpp"

namespace {

/// The mean magnitude of a unit, then the sign of each element. What that leaves out is a residual,
/// which gradient_exchange adds to the next gradient. (EF-signSGD, arXiv 1901.09847)
struct sign_compressor {
  [[nodiscard]] fssdp::combination combines(int /*round*/) const {
    return fssdp::combination::gather;  // every group decodes the payloads of all
  }
  [[nodiscard]] std::string description() const { return "sign_compressor"; }
  [[nodiscard]] int rounds() const { return 1; }
  [[nodiscard]] std::size_t payload_bytes(fssdp::unit_shape shape, int /*round*/) const {
    return sizeof(float) + (shape.elements() + 7) / 8;
  }
  [[nodiscard]] std::size_t state_elements(fssdp::unit_shape) const { return 0; }
  [[nodiscard]] std::size_t scratch_elements(fssdp::unit_shape) const { return 0; }
  [[nodiscard]] bool needs_residual(fssdp::unit_shape) const { return true; }

  void encode(fssdp::compression_unit const&, std::span<float const> input,
              std::span<fssdp::combined_payload const>, std::span<std::byte> payload) const {
    auto magnitude = 0.0F;
    for (auto const x : input) magnitude += std::abs(x) / static_cast<float>(input.size());
    std::memcpy(payload.data(), &magnitude, sizeof magnitude);
    auto const signs = payload.subspan(sizeof magnitude);
    for (auto& byte : signs) byte = std::byte{0};
    for (std::size_t i = 0; i < input.size(); ++i)
      if (input[i] < 0) signs[i / 8] |= static_cast<std::byte>(1U << i % 8);
  }
  /// The decoded payload of this group.
  void own(fssdp::compression_unit const&, std::span<fssdp::combined_payload const> rounds,
           std::span<float> output) const {
    for (auto& x : output) x = 0;
    add(rounds[0].mine, 1, output);
  }
  /// The average over groups, in their order: the same bits in all of them.
  void decode(fssdp::compression_unit const&, std::span<fssdp::combined_payload const> rounds,
              std::span<float> output) const {
    for (auto& x : output) x = 0;
    auto const groups = static_cast<std::size_t>(rounds[0].groups);
    for (std::size_t g = 0; g < groups; ++g)
      add(rounds[0].of_group(g), 1.0F / static_cast<float>(groups), output);
  }

 private:
  static void add(std::span<std::byte const> payload, float share, std::span<float> output) {
    auto magnitude = 0.0F;
    std::memcpy(&magnitude, payload.data(), sizeof magnitude);
    auto const signs = payload.subspan(sizeof magnitude);
    for (std::size_t i = 0; i < output.size(); ++i) {
      auto const is_negative = (std::to_integer<unsigned>(signs[i / 8]) >> i % 8 & 1U) != 0;
      output[i] += share * (is_negative ? -magnitude : magnitude);
    }
  }
};

static_assert(fssdp::compressor<sign_compressor>);

constexpr auto groups = 4;
constexpr auto size = std::size_t{1000};  // parameters of the only expert
constexpr auto layer = fssdp::layer_id{0};

/// How far parameters are from the mean of the targets after some steps, and what a step has sent.
struct result {
  double distance = 0;
  std::size_t bytes = 0;
};

result train(fssdp::thread_communicator& between, fssdp::gradient_exchange_options const& method) {
  auto const layouts = fssdp::layer_stack<fssdp::table_layout>{
      {{{.ranks = 1}, {fssdp::rank_id{0}}}}};  // a group is one rank, which owns the expert
  auto exchange =
      fssdp::gradient_exchange{between, layouts, fssdp::rank_id{0}, {{1, size}}, method};
  auto gradients = fssdp::expert_buffer<float>{1, std::array{size}};
  auto const gradient = gradients.tensors()[0][0];
  auto weights = std::vector<float>(size);
  auto const target = [](int group, std::size_t i) {
    return std::sin(static_cast<float>(i) * 0.37F + static_cast<float>(group) * 1.7F);
  };
  for (int step = 0; step < 400; ++step) {
    for (std::size_t i = 0; i < size; ++i)
      gradient[i] = weights[i] - target(between.rank().value(), i);
    exchange.average(layer, gradients);
    exchange.advance();
    for (std::size_t i = 0; i < size; ++i) weights[i] -= 0.02F * gradient[i];
  }
  auto squares = 0.0;
  for (std::size_t i = 0; i < size; ++i) {
    auto mean = 0.0F;
    for (int group = 0; group < groups; ++group) mean += target(group, i) / groups;
    squares += std::pow(static_cast<double>(weights[i] - mean), 2);
  }
  return {std::sqrt(squares / size), exchange.bytes_sent(layer)};
}

}  // namespace

int main() {
  struct method {
    char const* name;
    fssdp::gradient_exchange_options options;
  };
  auto const methods = std::array{
      method{"full", {}},
      method{"your own, what is left out is sent later", {.compressor = sign_compressor{}}},
      method{"your own, what is left out is lost",
             {.compressor = sign_compressor{}, .memory = fssdp::gradient_memory::none}}};
  auto results = std::array<result, methods.size()>{};
  for (std::size_t m = 0; m < methods.size(); ++m)
    fssdp::thread_world{groups}.run([&](fssdp::thread_communicator& between) {
      auto const one = train(between, methods[m].options);
      if (between.rank() == fssdp::rank_id{0}) results[m] = one;
    });
  std::printf("%-42s  %14s  %21s\n", "method", "bytes per step", "distance to the mean");
  for (std::size_t m = 0; m < methods.size(); ++m)
    std::printf("%-42s  %14zu  %21.5f\n", methods[m].name, results[m].bytes, results[m].distance);
  auto const is_right = results[1].distance < results[2].distance / 4;
  return is_right && program::output_was_taken("10_own_compressor") ? 0 : 1;
}
