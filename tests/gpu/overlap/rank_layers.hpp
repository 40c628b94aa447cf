// SPDX-License-Identifier: Apache-2.0
/// The layers of one rank: what it gathers, and multiplies by, and in which order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/comm/cuda/cuda_mirror.hpp"
#include "fssdp/comm/peer.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "gpu/overlap/options.hpp"
#include "gpu/overlap/products.hpp"
#include "gpu/overlap/stream_range.hpp"

namespace overlap {

/// What is enqueued: of all layers one or the other, both on one stream, or both side by side.
enum class order { gathers, products, in_turn, overlapped };

/// Every rank owns an expert of each layer and gathers all of them. Two places for the experts of a
/// layer take turns: one is gathered into while the other is read.
class rank_layers {
  using bf16 = fssdp::bf16;

 public:
  rank_layers(fssdp::peer_communicator& comm, fssdp::transfer_plan const& plan,
              fssdp::block_layout const& layout, options const& of)
      : comm_{&comm},
        plan_{&plan},
        of_{of},
        x_{filled({1, std::vector{tokens()}}, 1), comm.stream()},
        gathers_(layers()),
        products_(layers()) {
    for (std::size_t layer = 0; layer < layers(); ++layer) {
      auto shard = fssdp::make_shard<bf16>(layout, comm.rank(), elements());
      shards_.emplace_back(filled(std::move(shard), value(layer, comm.rank().index())),
                           comm.stream());
      outs_.emplace_back(fssdp::expert_buffer<float>{experts(), std::vector{tokens()}},
                         comm.stream());
    }
    for (int place = 0; place < 2; ++place)
      gathered_.emplace_back(fssdp::make_partials<bf16>(plan, comm.rank(), elements()),
                             comm.stream());
    synchronize();
  }

  /// How many products follow each other in a layer: at first, one for each expert.
  [[nodiscard]] std::size_t products() const { return product_count_; }
  void set_products(std::size_t count) { product_count_ = std::max(count, experts()); }

  void enqueue(order how) {
    if (how == order::overlapped) return enqueue_overlapped();
    for (std::size_t layer = 0; layer < layers(); ++layer) {
      if (how != order::products) {
        record(gathers_[layer].begin, comm_->stream());
        gather(layer);
      }
      if (how == order::products) multiply(layer, compute_.get(), alone_);
      if (how == order::in_turn) multiply(layer, comm_->stream(), behind_);
    }
  }
  void synchronize() {
    comm_->synchronize();
    fssdp::detail::cuda_require(cudaStreamSynchronize(compute_.get()), comm_->rank(),
                                "cudaStreamSynchronize");
  }

  /// What has run, and when.
  /// @pre it has been enqueued in this order, and has finished
  [[nodiscard]] std::vector<fssdp::trace_event> events(order how, cuda_event const& origin) const {
    auto all = std::vector<fssdp::trace_event>{};
    for (std::size_t layer = 0; layer < layers(); ++layer) {
      auto const add = [&](stream_range const& of, fssdp::trace_track track,
                           fssdp::static_text name) {
        all.push_back({{track, name, {.layer = layer}},
                       time_from(origin, of.begin),
                       time_from(origin, of.end)});
      };
      if (how != order::products) add(gathers_[layer], fssdp::gather_track, "gather");
      if (how != order::gathers) add(products_[layer], fssdp::compute_track, "product");
    }
    return all;
  }

  /// Forgets what has been gathered, and what has been made of it.
  void clear() {
    for (auto& place : gathered_) place.copy_to_device();
    for (auto& out : outs_) out.copy_to_device();
    synchronize();
  }
  /// How many elements of all products are wrong. Those of whole numbers are exact; one that has
  /// begun too early, or was overtaken by a gather, has read experts of another layer.
  [[nodiscard]] std::size_t wrong() {
    auto count = std::size_t{0};
    for (std::size_t layer = 0; layer < layers(); ++layer) {
      outs_[layer].synchronize_to_host();
      for (std::size_t expert = 0; expert < experts(); ++expert) {
        auto const expected = static_cast<float>(of_.width) * value(layer, expert);
        for (auto const found : outs_[layer].host().tensors()[0][expert])
          count += found == expected ? 0 : 1;
      }
    }
    return count;
  }

 private:
  [[nodiscard]] std::size_t layers() const { return static_cast<std::size_t>(of_.layers); }
  [[nodiscard]] std::size_t experts() const { return static_cast<std::size_t>(of_.ranks); }
  [[nodiscard]] std::size_t tokens() const {
    return static_cast<std::size_t>(of_.rows) * static_cast<std::size_t>(of_.width);
  }
  [[nodiscard]] std::size_t elements() const {
    return static_cast<std::size_t>(of_.width) * static_cast<std::size_t>(of_.width);
  }
  /// Of all elements of an expert.
  [[nodiscard]] float value(std::size_t layer, std::size_t expert) const {
    return static_cast<float>(1 + layer * experts() + expert);
  }
  [[nodiscard]] static fssdp::expert_buffer<bf16> filled(fssdp::expert_buffer<bf16> buffer,
                                                         float with) {
    std::ranges::fill(buffer.tensors()[0][0], bf16{with});
    return buffer;
  }

  /// The gather of the next layer and the product of this one wait for the same: for the gather of
  /// this layer, and the product of the one before. So they begin together, which costs neither,
  /// and no timeline shows one of them after the other.
  void enqueue_overlapped() {
    auto const gathers = comm_->stream();
    auto const computes = compute_.get();
    record(gathers_[0].begin, gathers);
    gather(0);
    for (std::size_t layer = 0; layer + 1 < layers(); ++layer) {
      auto const next = layer + 1;
      if (layer != 0) await(products_[layer - 1].end, gathers);  // which has read its place
      record(gathers_[next].begin, gathers);
      await(gathers_[next].begin, computes);
      multiply(layer, computes, beside_);
      await(products_[layer].begin, gathers);
      gather(next);
    }
    await(gathers_.back().end, computes);
    multiply(layers() - 1, computes, beside_);
  }
  void gather(std::size_t layer) {
    sparse_all_gather(*comm_, *plan_, std::as_const(shards_[layer]), gathered_[layer % 2],
                      {.scratch = &lists_});
    record(gathers_[layer].end, comm_->stream());
  }
  void multiply(std::size_t layer, cudaStream_t stream,
                std::function<void(product const&)> const& enqueue_product) {
    record(products_[layer].begin, stream);
    for (std::size_t i = 0; i < product_count_; ++i) {
      auto const expert = i % experts();
      enqueue_product({.rows = of_.rows,
                       .width = of_.width,
                       .x = x_.tensors()[0].data,
                       .w = gathered_[layer % 2].tensors()[0][expert].data(),
                       .out = outs_[layer].tensors()[0][expert].data()});
    }
    record(products_[layer].end, stream);
  }

  fssdp::peer_communicator* comm_;
  fssdp::transfer_plan const* plan_;
  options of_;
  std::size_t product_count_ = experts();
  fssdp::cuda_mirror<bf16> x_;                      // [rows, width], ones
  std::vector<fssdp::cuda_mirror<bf16>> shards_;    // [layer]: an expert
  std::vector<fssdp::cuda_mirror<bf16>> gathered_;  // [place]: all experts of a layer
  std::vector<fssdp::cuda_mirror<float>> outs_;     // [layer]: an x for each expert
  std::vector<stream_range> gathers_;               // [layer]
  std::vector<stream_range> products_;              // [layer]
  fssdp::scratch_memory lists_;
  fssdp::cuda_stream compute_ = fssdp::make_cuda_stream(comm_->rank());
  std::function<void(product const&)> alone_ = products_on(compute_.get());
  std::function<void(product const&)> beside_ = products_on(compute_.get(), of_.spare);
  std::function<void(product const&)> behind_ = products_on(comm_->stream());
};

}  // namespace overlap
