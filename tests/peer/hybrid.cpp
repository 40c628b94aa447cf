// SPDX-License-Identifier: Apache-2.0
/// Gradients in a device's memory are averaged between groups as those of the host are.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/cuda/cuda_staging.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/hybrid/equal_shards.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/staged_shard.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "peer/device_bytes.hpp"
#include "support/two_levels.hpp"

using fssdp::layer_id;
using fssdp::rank_id;

namespace {

/// A shard of the host's, and the same in memory of a device.
struct gradients_of_device {
  fssdp::expert_buffer<float>& host;
  fssdp::cuda_stream stream = fssdp::make_cuda_stream();
  peer_tests::device_bytes device{fssdp::cuda_memory{bytes() + 1}, stream.get()};

  [[nodiscard]] std::size_t bytes() const {
    auto sum = std::size_t{0};
    for (auto const& tensor : host.tensors()) sum += tensor.slots * tensor.elements * sizeof(float);
    return sum;
  }
  /// One tensor after the other, a slot after the other.
  [[nodiscard]] std::vector<fssdp::expert_tensor<float>> tensors() const {
    auto all = std::vector<fssdp::expert_tensor<float>>{};
    auto* next = reinterpret_cast<float*>(device.memory.bytes().data());
    for (auto const& tensor : host.tensors()) {
      all.push_back({next, tensor.slots, tensor.elements});
      next += tensor.slots * tensor.elements;
    }
    return all;
  }
  template <class Copy>
  void for_each_slot(Copy copy) const {
    auto const there = tensors();
    for (std::size_t k = 0; k < there.size(); ++k)
      for (std::size_t slot = 0; slot < there[k].slots; ++slot)
        copy(there[k][slot], host.tensors()[k][slot]);
    cudaStreamSynchronize(stream.get());
  }
  void bring_to_device() const {
    for_each_slot([&](auto to, auto from) {
      cudaMemcpyAsync(to.data(), from.data(), from.size_bytes(), cudaMemcpyHostToDevice,
                      stream.get());
    });
  }
  void bring_to_host() const {
    for_each_slot([&](auto from, auto to) {
      cudaMemcpyAsync(to.data(), from.data(), from.size_bytes(), cudaMemcpyDeviceToHost,
                      stream.get());
    });
  }
};

}  // namespace

TEST_CASE("gradients of a device that groups average through pinned buffers have the host's bits") {
  gpu_double::reset({.only_device_memory = true});
  auto const layouts = support::owners_by_chance(5, 1, 1);
  for (std::size_t const buffer : {64U, 300U, 100'000U}) {
    CAPTURE(buffer);
    auto world = fssdp::thread_world{2};
    auto const all = support::on_all_ranks(world, [&](fssdp::thread_communicator& between) {
      auto hashes = std::vector<std::uint64_t>{};
      for (auto const is_staged : {false, true}) {
        auto exchange =
            fssdp::gradient_exchange{between, layouts, rank_id{0}, support::two_shapes(),
                                     fssdp::demo(fssdp::top_dct_compressor{})};
        auto gradients = fssdp::expert_buffer<float>{0, support::sizes_of(support::two_shapes())};
        for (std::uint64_t step = 0; step < 3; ++step) {
          for (auto const layer : fssdp::first_n<layer_id>(2)) {
            support::write_gradients(layouts, layer, rank_id{0}, between.rank().value(), step,
                                     gradients);
            if (is_staged) {
              auto const there = gradients_of_device{gradients};
              there.bring_to_device();
              auto staging = fssdp::cuda_staging{there.stream.get(), buffer};
              auto shard = fssdp::staged_shard{staging};
              auto const tensors = there.tensors();
              exchange.average(layer, shard.read(tensors));
              shard.write(tensors);
              there.bring_to_host();
            } else {
              exchange.average(layer, gradients);
            }
            hashes.push_back(fssdp::hash_of_bits(gradients));
          }
          exchange.advance();
        }
      }
      return hashes;
    });
    for (auto const& hashes : all) {
      auto const half = hashes.size() / 2;
      REQUIRE(half == 6);
      for (std::size_t i = 0; i < half; ++i) CHECK(hashes[i] == hashes[half + i]);
      CHECK(hashes[0] != hashes[2]);
    }
    CHECK(all[0] == all[1]);
  }
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}
