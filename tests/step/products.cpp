// SPDX-License-Identifier: Apache-2.0
/// The products of an expert on a device of fssdp_step: y = x w1 w2, and the gradients of x, w1 and w2.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp_step/cuda_device.hpp"
#include "gpu_double/gpu_double.hpp"

namespace {

constexpr auto width = std::size_t{4};
constexpr auto hidden = std::size_t{8};
constexpr auto elements = 2 * width * hidden + 3;  // some are left over

using numbers = std::vector<float>;

/// Whole numbers, small enough for exact sums.
numbers some_numbers(std::size_t count, unsigned seed) {
  auto all = numbers(count);
  for (auto& one : all) one = static_cast<float>((seed = seed * 1664525 + 1013904223) >> 29U) - 3;
  return all;
}
float dot(std::span<float const> x, std::span<float const> y) {
  auto sum = 0.0F;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}
numbers times(std::span<float const> a, std::span<float const> b, std::size_t inner,
              std::size_t columns) {
  auto out = numbers(a.size() / inner * columns);
  for (std::size_t i = 0; i < out.size(); ++i)
    for (std::size_t k = 0; k < inner; ++k)
      out[i] += a[i / columns * inner + k] * b[k * columns + i % columns];
  return out;
}

/// A block on the device, and what it began with.
struct block {
  numbers host;
  fssdp::cuda_memory device;

  explicit block(numbers with) : host{std::move(with)}, device{host.size() * sizeof(float)} {
    auto const stream = fssdp::make_cuda_stream();
    cudaMemcpyAsync(data(), host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice,
                    stream.get());
    cudaStreamSynchronize(stream.get());
  }
  [[nodiscard]] float* data() const { return reinterpret_cast<float*>(device.bytes().data()); }
  [[nodiscard]] std::span<float> all() const { return {data(), host.size()}; }
  [[nodiscard]] fssdp::rows_view<std::uint8_t> rows() const {
    return {reinterpret_cast<std::uint8_t*>(data()), host.size() / width, width * sizeof(float)};
  }
};

}  // namespace

TEST_CASE("an expert's products on a device, and their gradients, are those of its matrices") {
  (void)step::device_kernels();  // sets up the double
  auto const computing = fssdp::make_cuda_stream();
  auto const moving = fssdp::make_cuda_stream();
  auto const await = [&] { cudaStreamSynchronize(computing.get()); };
  auto device = step::cuda_device{{.rank = fssdp::rank_id{0},
                                   .computing = computing.get(),
                                   .moving = moving.get(),
                                   .pool = nullptr,
                                   .make_materializer = {},
                                   .await_computing = await,
                                   .await_moving = [] {}},
                                  {elements, width, hidden},
                                  1,
                                  3,
                                  nullptr};
  auto const x = block{some_numbers(7 * width, 1)};
  auto const y = block{numbers(7 * width)};
  auto const d_y = block{some_numbers(7 * width, 2)};
  auto const d_x = block{numbers(7 * width)};
  auto const parameters =
      std::vector{some_numbers(elements, 3), some_numbers(elements, 4), some_numbers(elements, 5)};
  auto const rows = std::vector<std::size_t>{3, 0, 4};
  auto experts = std::vector<block>{};
  auto partials = std::vector<block>{};
  auto work = step::layer_work{fssdp::layer_id{0}, {}, x.rows(), y.rows()};
  for (std::size_t e = 0, first = 0; e < rows.size(); first += rows[e++]) {
    experts.emplace_back(parameters[e]);
    partials.emplace_back(numbers(elements));
    work.experts.push_back({.expert = fssdp::expert_id{e},
                            .parameters = experts.back().all(),
                            .partial = partials.back().all(),
                            .first = first,
                            .rows = rows[e]});
  }

  auto times_of_device = step::device_times{};
  device.begin_iteration();
  device.forward(work);
  work.received = d_y.rows();
  work.results = d_x.rows();
  device.backward(work);
  device.weight_gradients(work);
  device.compute_dense(2.5, 2);
  device.end_iteration(times_of_device);

  auto const read = [&](std::span<float const> of) {
    auto const found = device.memory().on_host(of);
    return numbers(found.begin(), found.end());
  };
  for (auto const& expert : work.experts) {
    CAPTURE(expert.expert.value(), expert.rows);
    auto const part = [&](numbers const& all) {
      return std::span{all}.subspan(expert.first * width, expert.rows * width);
    };
    auto const own = std::span{parameters[expert.expert.index()]};
    auto const w1 = own.first(width * hidden);
    auto const w2 = own.subspan(width * hidden, width * hidden);
    auto const expected = times(times(part(x.host), w1, width, hidden), w2, hidden, width);
    auto const all_y = read(y.all());
    auto const all_d_x = read(d_x.all());
    auto const gradients = read(expert.partial);
    CHECK(numbers(part(all_y).begin(), part(all_y).end()) == expected);
    // y is linear in x, in w1 and in w2
    auto const product = dot(part(d_y.host), expected);
    CHECK(dot(part(all_d_x), part(x.host)) == product);
    CHECK(dot(std::span{gradients}.first(width * hidden), w1) == product);
    CHECK(dot(std::span{gradients}.subspan(width * hidden, width * hidden), w2) == product);
    CHECK(gradients.back() == 0);  // what is left over has none
  }
  CHECK(gpu_double::violations() == std::vector<std::string>{});
}
