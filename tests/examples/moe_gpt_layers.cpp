// SPDX-License-Identifier: Apache-2.0
/// Every layer of moe_gpt against central differences, and what it must not do.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "catch.hpp"
#include "moe_gpt/attention.hpp"
#include "moe_gpt/embedding.hpp"
#include "moe_gpt/expert.hpp"
#include "moe_gpt/head.hpp"
#include "moe_gpt/initialise.hpp"
#include "moe_gpt/layer_norm.hpp"
#include "moe_gpt/math.hpp"
#include "moe_gpt/router.hpp"

using namespace moe_gpt;

namespace {

using values = std::vector<double>;

[[nodiscard]] values random_values(std::size_t count, std::uint64_t seed, double deviation = 1) {
  auto drawn = values(count);
  fill_normal(std::span{drawn}, 0, deviation, seed);
  return drawn;
}

[[nodiscard]] double weighted(values const& y, values const& weights) {
  return std::inner_product(y.begin(), y.end(), weights.begin(), 0.0);
}

/// The largest difference between a gradient and the central differences of `loss` at `x`.
template <class Loss>
[[nodiscard]] double gradient_error(std::span<double> x, std::span<double const> gradient,
                                    Loss const& loss) {
  constexpr auto h = 1e-5;
  auto worst = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto const kept = x[i];
    x[i] = kept + h;
    auto const above = loss();
    x[i] = kept - h;
    auto const below = loss();
    x[i] = kept;
    auto const slope = (above - below) / (2 * h);
    worst = std::max(worst, std::abs(slope - gradient[i]) / std::max(1.0, std::abs(slope)));
  }
  return worst;
}

constexpr auto tolerance = 1e-7;

}  // namespace

TEST_CASE("gelu: its slope, and the float version is close to the double one", "[moe_gpt]") {
  for (auto x = -12.0; x < 12; x += 0.37) {
    CAPTURE(x);
    auto const slope = (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
    CHECK(std::abs(gelu_slope(x) - slope) < 1e-8);
    auto const small = static_cast<float>(x);
    CHECK(std::abs(static_cast<double>(gelu(small)) - gelu(x)) < 2e-6);
    CHECK(std::abs(static_cast<double>(gelu_slope(small)) - gelu_slope(x)) < 2e-6);
    auto const ratio = static_cast<double>(exponential(small)) / std::exp(double{small});
    CHECK(std::abs(ratio - 1) < 5e-7);
  }
  CHECK(exponential(-1e30F) > 0);
  CHECK(std::isfinite(exponential(1e30F)));
  CHECK(gelu(-200.0F) == Approx(0).margin(1e-30));
  CHECK(gelu(200.0F) == 200);
}

TEST_CASE("softmax: a row sums to 1 and its gradient agrees", "[moe_gpt]") {
  auto x = random_values(21, 5);
  auto const r = random_values(21, 6);
  auto const loss = [&] {
    auto y = x;
    softmax(std::span{y});
    return weighted(y, r);
  };
  auto y = x;
  softmax(std::span{y});
  CHECK(std::accumulate(y.begin(), y.end(), 0.0) == Approx(1));
  auto gradient = r;
  softmax_backward(std::span<double const>{y}, std::span{gradient});
  CHECK(gradient_error(x, gradient, loss) < tolerance);
}

TEST_CASE("layer norm: gradients", "[moe_gpt]") {
  constexpr std::size_t rows = 3;
  constexpr std::size_t d_model = 19;
  auto x = random_values(rows * d_model, 1, 2);
  auto gain = random_values(d_model, 2);
  auto bias = random_values(d_model, 3);
  auto const r = random_values(rows * d_model, 4);
  auto y = values(x.size());
  auto kept = layer_norm_activations<double>{};
  auto const weights = layer_norm_tensors<double>{gain, bias};
  auto const loss = [&] {
    layer_norm_forward(weights, x, y, kept);
    return weighted(y, r);
  };
  loss();
  auto dx = values(x.size(), 0.5);  // added to, as the residual stream needs it
  auto d_gain = values(d_model);
  auto d_bias = values(d_model);
  layer_norm_backward(weights, x, r, kept, dx, {d_gain, d_bias});
  for (auto& slope : dx) slope -= 0.5;
  CHECK(gradient_error(x, dx, loss) < tolerance);
  CHECK(gradient_error(gain, d_gain, loss) < tolerance);
  CHECK(gradient_error(bias, d_bias, loss) < tolerance);
}

TEST_CASE("attention: gradients", "[moe_gpt]") {
  auto const shape = attention_shape{.sequences = 2, .seq = 5, .d_model = 6, .heads = 2};
  auto x = random_values(shape.rows() * 6, 1);
  auto wqkv = random_values(6 * 18, 2, 0.5);
  auto wo = random_values(36, 3, 0.5);
  auto const r = random_values(x.size(), 4);
  auto const weights = attention_tensors<double>{wqkv, wo};
  auto y = values(x.size());
  auto kept = attention_activations<double>{};
  auto const loss = [&] {
    attention_forward(shape, weights, x, y, kept);
    return weighted(y, r);
  };
  loss();
  auto dx = values(x.size(), 7);  // written
  auto d_wqkv = values(wqkv.size());
  auto d_wo = values(wo.size());
  auto scratch = attention_scratch<double>{};
  attention_backward(shape, weights, x, r, kept, dx, {d_wqkv, d_wo}, scratch);
  CHECK(gradient_error(x, dx, loss) < tolerance);
  CHECK(gradient_error(wqkv, d_wqkv, loss) < tolerance);
  CHECK(gradient_error(wo, d_wo, loss) < tolerance);
}

TEST_CASE("attention: no output depends on what comes later or on another sequence", "[moe_gpt]") {
  auto const shape = attention_shape{.sequences = 2, .seq = 7, .d_model = 8, .heads = 2};
  auto const x = random_values(shape.rows() * 8, 1);
  auto const wqkv = random_values(8 * 24, 2);
  auto const wo = random_values(64, 3);
  auto kept = attention_activations<double>{};
  auto const run = [&](values const& in) {
    auto y = values(in.size());
    attention_forward(shape, {wqkv, wo}, in, y, kept);
    return y;
  };
  auto const y = run(x);
  for (std::size_t changed = 0; changed < shape.rows(); ++changed) {
    auto other = x;
    for (std::size_t i = 0; i < 8; ++i) other[changed * 8 + i] += 1;
    auto const y2 = run(other);
    auto const first = changed - changed % shape.seq;
    for (std::size_t row = 0; row < shape.rows(); ++row) {
      CAPTURE(changed, row);
      auto const sees = row >= changed && row < first + shape.seq;
      auto const same =
          std::equal(y.data() + row * 8, y.data() + (row + 1) * 8, y2.data() + row * 8);
      CHECK(same == !sees);
    }
  }
}

TEST_CASE("expert: gradients, and no tokens are fine", "[moe_gpt]") {
  constexpr std::size_t d_model = 5;
  constexpr std::size_t d_ff = 9;
  auto tensors = std::vector<values>{};
  auto gradients = std::vector<values>{};
  for (auto const n : expert_elements(d_model, d_ff)) {
    tensors.push_back(random_values(n, n, 0.7));
    gradients.emplace_back(n);
  }
  auto const pointers = [](std::vector<values>& of) {
    return expert_tensors<double>{of[0].data(), of[1].data(), of[2].data(), of[3].data()};
  };
  auto const shape = expert_shape{.tokens = 4, .d_model = d_model, .d_ff = d_ff};
  auto x = random_values(4 * d_model, 1);
  auto const r = random_values(x.size(), 2);
  auto y = values(x.size());
  auto dx = values(x.size(), 7);  // written
  auto kept = expert_activations<double>{};
  auto scratch = expert_scratch<double>{};
  auto const loss = [&] {
    expert_forward(shape, pointers(tensors), x, y, kept);
    return weighted(y, r);
  };
  loss();
  expert_backward(shape, pointers(tensors), x, r, kept, dx, pointers(gradients), scratch);
  CHECK(gradient_error(x, dx, loss) < tolerance);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CAPTURE(i);
    CHECK(gradient_error(tensors[i], gradients[i], loss) < tolerance);
  }

  auto const before = gradients;
  auto const none = expert_shape{.tokens = 0, .d_model = d_model, .d_ff = d_ff};
  expert_forward(none, pointers(tensors), {}, {}, kept);
  expert_backward(none, pointers(tensors), {}, {}, kept, {}, pointers(gradients), scratch);
  CHECK(gradients == before);
}

TEST_CASE("router: gradients, with and without the auxiliary loss", "[moe_gpt]") {
  auto const top_k = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{4});
  auto const coefficient = GENERATE(0.0, 0.3);
  CAPTURE(top_k, coefficient);
  auto const shape = router_shape{.tokens = 6, .d_model = 5, .experts = 4, .top_k = top_k};
  auto x = random_values(6 * 5, 1);
  auto wg = random_values(5 * 4, 2);
  auto const r = random_values(6 * top_k, 3);
  auto const fractions = values{0.4, 0.1, 0.2, 0.3};
  auto const balance =
      balance_loss{.coefficient = coefficient, .fractions = fractions, .global_tokens = 10};
  auto kept = router_activations<double>{};
  router_forward(shape, wg, x, kept);
  auto const choices = kept.choices;
  auto const loss = [&] {
    router_forward(shape, wg, x, kept);
    if (kept.choices != choices) throw std::logic_error{"a choice has switched"};
    auto auxiliary = 0.0;
    for (std::size_t i = 0; i < kept.probabilities.size(); ++i)
      auxiliary += fractions[i % 4] * kept.probabilities[i] / 10;
    return weighted(kept.weights, r) + coefficient * 4 * auxiliary;
  };
  loss();
  auto dx = values(x.size(), 0.5);  // added to
  auto d_wg = values(wg.size());
  router_backward(shape, wg, x, r, balance, kept, dx, d_wg);
  for (auto& slope : dx) slope -= 0.5;
  CHECK(gradient_error(x, dx, loss) < tolerance);
  CHECK(gradient_error(wg, d_wg, loss) < tolerance);
}

TEST_CASE("router: the largest first, ties to the lower id, weights sum to 1", "[moe_gpt]") {
  auto const shape = router_shape{.tokens = 4, .d_model = 5, .experts = 5, .top_k = 2};
  auto const x = values{0,   1, 1, 0, 0,  // 1 and 2 tie
                        2,   0, 0, 0, 3,  // 4 before 0
                        0,   0, 0, 0, 0,  // all tie
                        NAN, 0, 0, 0, 0};
  auto identity = values(25);
  for (std::size_t i = 0; i < 5; ++i) identity[i * 6] = 1;
  auto kept = router_activations<double>{};
  router_forward(shape, identity, x, kept);
  CHECK(kept.choices == std::vector{1, 2, 4, 0, 0, 1, 0, 1});
  for (std::size_t t = 0; t < 3; ++t)
    CHECK(kept.weights[2 * t] + kept.weights[2 * t + 1] == Approx(1));
  CHECK(kept.weights[2] == Approx(std::exp(1) / (1 + std::exp(1))));
}

TEST_CASE("embedding: gradients", "[moe_gpt]") {
  auto const bytes = std::vector<std::uint8_t>{7, 255, 7, 0, 7, 7};
  constexpr std::size_t d_model = 3;
  auto token = random_values(byte_values * d_model, 1);
  auto position = random_values(3 * d_model, 2);
  auto const r = random_values(bytes.size() * d_model, 3);
  auto x = values(r.size());
  auto const tables = embedding_tensors<double>{token, position};
  auto const loss = [&] {
    embed(tables, bytes, 3, std::span{x});
    return weighted(x, r);
  };
  auto d_token = values(token.size());
  auto d_position = values(position.size());
  embed_backward(bytes, 3, r, embedding_tensors<double>{d_token, d_position});
  CHECK(gradient_error(token, d_token, loss) < tolerance);
  CHECK(gradient_error(position, d_position, loss) < tolerance);
}

TEST_CASE("head and cross-entropy: loss and gradients", "[moe_gpt]") {
  auto const targets = std::vector<std::uint8_t>{3, 255, 0};
  constexpr std::size_t d_model = 4;
  auto x = random_values(3 * d_model, 1);
  auto w = random_values(d_model * byte_values, 2);
  auto logits = values(3 * byte_values);
  auto const scale = 0.25;
  auto const loss = [&] {
    head_forward<double>(w, x, logits);
    return cross_entropy(targets, std::span{logits}, scale) * scale;
  };
  loss();  // leaves the gradient of the logits
  auto dx = values(x.size(), 7);
  auto d_w = values(w.size());
  head_backward<double>(w, x, logits, dx, d_w);
  CHECK(gradient_error(x, dx, loss) < tolerance);
  CHECK(gradient_error(w, d_w, loss) < tolerance);

  auto even = values(byte_values, 3.0);
  CHECK(cross_entropy(std::span{targets}.first(1), std::span{even}, 1.0) ==
        Approx(std::log(256.0)));
}

TEST_CASE("drawing a byte: the likely ones come up", "[moe_gpt]") {
  auto logits = values(byte_values, -100.0);
  logits[65] = 1;
  logits[66] = 0;
  auto random = std::mt19937_64{1};
  auto counts = std::vector<int>(byte_values);
  for (int i = 0; i < 1000; ++i) ++counts[draw_byte(std::span<double const>{logits}, 1.0, random)];
  CHECK(counts[65] + counts[66] == 1000);
  CHECK(counts[65] > 600);
  CHECK(counts[66] > 150);
  for (int i = 0; i < 100; ++i)
    CHECK(draw_byte(std::span<double const>{logits}, 0.01, random) == 65);
}
