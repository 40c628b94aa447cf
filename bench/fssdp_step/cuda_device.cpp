// SPDX-License-Identifier: Apache-2.0
// A rank's part of a device that computes.
#include "cuda_device.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

namespace step {
namespace {

[[nodiscard]] float* numbers(fssdp::rows_view<std::uint8_t> const& rows) {
  return reinterpret_cast<float*>(rows.data);
}

}  // namespace

cuda_device::cuda_device(cuda_rank of, expert_shape shape, int layers, int experts,
                         fssdp::trace_recorder* trace)
    : of_{std::move(of)},
      shape_{shape},
      math_{make_device_math(of_.computing, static_cast<std::size_t>(experts))},
      memory_{of_.rank, of_.computing, of_.pool, *math_, of_.await_computing},
      trace_{of_.rank, of_.computing, of_.moving, trace},
      gradients_inside_{memory_.resource()},
      dense_{1, shape.elements, memory_.resource()},
      dense_rows_{memory_.resource()},
      dense_inside_{memory_.resource()} {
  for (int layer = 0; layer < layers; ++layer)
    layers_.push_back({nullptr, row_block{memory_.resource()}});
  memory_.fill(dense_.all(), 1.0F / 1024);
  memory_.add(dense_.all(), 0);  // CUDA loads the kernel now, not while ranks wait for each other
}
cuda_device::~cuda_device() = default;

fssdp::materializer cuda_device::make_materializer(fssdp::expert_shards shards,
                                                   fssdp::materializer_policy policy,
                                                   fssdp::materializer_options const& options) {
  return of_.make_materializer(std::move(shards), std::move(policy), options);
}

matrix cuda_device::w1(float const* expert) const {
  return {const_cast<float*>(expert), static_cast<int>(shape_.width),
          static_cast<int>(shape_.hidden)};
}
matrix cuda_device::w2(float const* expert) const {
  return {const_cast<float*>(expert) + shape_.width * shape_.hidden,
          static_cast<int>(shape_.hidden), static_cast<int>(shape_.width)};
}
matrix cuda_device::rows_of(float* all, expert_share const& share, std::size_t columns) {
  return {all + share.first * columns, static_cast<int>(share.rows), static_cast<int>(columns)};
}

template <class Product>
void cuda_device::multiply(layer_work const& work, factors how, Product make) {
  products_.clear();
  for (auto const& share : work.experts)
    if (share.rows != 0) products_.push_back(make(share));
  math_->multiply(products_, how);
}

void cuda_device::compute_dense(double rows, int times) {
  auto const count = static_cast<std::size_t>(std::ceil(rows));
  if (count == 0) return;
  auto const of_width = dense_rows_.resize<float>(count, shape_.width);
  auto const of_hidden = dense_inside_.resize<float>(count, shape_.hidden);
  auto const all = expert_share{.rows = count};
  auto const outside = rows_of(of_width.data, all, shape_.width);
  auto const inside = rows_of(of_hidden.data, all, shape_.hidden);
  for (int n = 0; n < times; ++n)
    for (auto const& one : {product{outside, w1(dense_.all().data()), inside},
                            product{inside, w2(dense_.all().data()), outside}})
      math_->multiply({&one, 1}, {});
}

void cuda_device::forward(layer_work const& work) {
  auto& of = layers_[work.layer.index()];
  of.received = numbers(work.received);
  auto* const inside = of.inside.resize<float>(work.received.count, shape_.hidden).data;
  multiply(work, {}, [&](expert_share const& share) {
    return product{rows_of(of.received, share, shape_.width), w1(share.parameters.data()),
                   rows_of(inside, share, shape_.hidden)};
  });
  multiply(work, {}, [&](expert_share const& share) {
    return product{rows_of(inside, share, shape_.hidden), w2(share.parameters.data()),
                   rows_of(numbers(work.results), share, shape_.width)};
  });
}

void cuda_device::backward(layer_work const& work) {
  auto* const inside = gradients_inside_.resize<float>(work.received.count, shape_.hidden).data;
  auto const how = factors{.b = reading::transposed};
  multiply(work, how, [&](expert_share const& share) {
    return product{rows_of(numbers(work.received), share, shape_.width),
                   w2(share.parameters.data()), rows_of(inside, share, shape_.hidden)};
  });
  multiply(work, how, [&](expert_share const& share) {
    return product{rows_of(inside, share, shape_.hidden), w1(share.parameters.data()),
                   rows_of(numbers(work.results), share, shape_.width)};
  });
}

void cuda_device::weight_gradients(layer_work const& work) {
  auto const range = fssdp::trace_range{
      &trace_, fssdp::compute_track, "weight gradients", {.layer = work.layer.value()}};
  auto const& of = layers_[work.layer.index()];
  auto* const inside = of.inside.data<float>();
  auto* const gradients_inside = gradients_inside_.data<float>();
  auto const how = factors{.a = reading::transposed};
  multiply(work, how, [&](expert_share const& share) {
    return product{rows_of(inside, share, shape_.hidden),
                   rows_of(numbers(work.received), share, shape_.width), w2(share.partial.data())};
  });
  multiply(work, how, [&](expert_share const& share) {
    return product{rows_of(of.received, share, shape_.width),
                   rows_of(gradients_inside, share, shape_.hidden), w1(share.partial.data())};
  });
}

void cuda_device::begin_iteration() { trace_.begin(); }

void cuda_device::end_iteration(device_times& times) {
  of_.await_computing();
  of_.await_moving();
  trace_.end();
  times.exposed = trace_.seconds(fssdp::compute_track, "wait");
  times.moving = trace_.seconds(fssdp::gather_track) + trace_.seconds(fssdp::reduce_track);
  times.tokens = trace_.seconds(fssdp::dispatch_track);
}

}  // namespace step
