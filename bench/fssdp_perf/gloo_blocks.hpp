// SPDX-License-Identifier: Apache-2.0
/// The blocks of an array by one call of Gloo.
#pragma once

#include <gloo/allgatherv.h>
#include <gloo/reduce_scatter.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "rank_memory.hpp"

namespace perf {

/// ag: gloo::allgatherv. rs: gloo::ReduceScatterHalvingDoubling, which works in place: to copy what
/// it sums, and the result, is part of the work. It sums fp32 and fp64 only.
template <class T>
class gloo_blocks {
 public:
  gloo_blocks(rank_memory<T>& mine, std::shared_ptr<gloo::Context> of)
      : mine_{&mine}, context_{std::move(of)} {
    auto const& plan = mine.plan();
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(plan.experts()))
      counts_.push_back(mine.elements(expert));
    if constexpr (std::is_floating_point_v<T>) {
      if (mine.which() == collective::ag) return;
      sums_.resize(plan.materialized_offsets(mine.rank()).back());
      scatter_ = std::make_unique<gloo::ReduceScatterHalvingDoubling<T>>(
          context_, std::vector{sums_.data()}, static_cast<int>(sums_.size()),
          std::vector<int>(counts_.begin(), counts_.end()));
    }
  }

  void run() {
    auto const mine = counts_[mine_->rank().index()];
    auto const* const from = mine_->from().tensors().front().data;
    auto* const to = mine_->to().tensors().front().data;
    if (mine_->which() == collective::ag) {
      auto options = gloo::AllgathervOptions{context_};
      options.setInput(const_cast<T*>(from), mine);  // only read
      options.setOutput(to, counts_);
      gloo::allgatherv(options);
    } else {
      std::copy_n(from, sums_.size(), sums_.data());
      scatter_->run();
      std::copy_n(sums_.data(), mine, to);
    }
  }

 private:
  rank_memory<T>* mine_;
  std::shared_ptr<gloo::Context> context_;
  std::vector<std::size_t> counts_;  // [rank]
  std::vector<T> sums_;              // the array, in a reduction
  std::unique_ptr<gloo::Algorithm> scatter_;
};

}  // namespace perf
