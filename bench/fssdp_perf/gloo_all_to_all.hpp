// SPDX-License-Identifier: Apache-2.0
/// All transfers of one rank as one call of Gloo.
#pragma once

#include <gloo/alltoallv.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "received_sums.hpp"

namespace perf {

/// What a rank sends must lie in one piece, in the order of the ranks: to pack it is part of the
/// work. Replicas arrive where they should, as the owners of a block layout ascend with the
/// experts.
template <class T>
class gloo_all_to_all {
 public:
  gloo_all_to_all(rank_memory<T>& mine, std::shared_ptr<gloo::Context> of)
      : mine_{&mine},
        context_{std::move(of)},
        gathers_{mine.which() == collective::ag},
        in_(static_cast<std::size_t>(mine.plan().ranks())),
        out_(in_.size()) {
    auto by_peer = std::vector<std::vector<fssdp::expert_id>>(in_.size());
    auto arriving = std::size_t{0};
    for (auto const& t : mine.plan().transfers()) {
      auto const [from, to] =
          gathers_ ? std::pair{t.source, t.destination} : std::pair{t.destination, t.source};
      if (from == mine.rank()) by_peer[to.index()].push_back(t.chunk.expert);
      if (to != mine.rank()) continue;
      out_[from.index()] += static_cast<std::int64_t>(mine.elements());
      ++arriving;
    }
    for (std::size_t peer = 0; peer < in_.size(); ++peer) {
      in_[peer] = static_cast<std::int64_t>(by_peer[peer].size() * mine.elements());
      packed_.insert(packed_.end(), by_peer[peer].begin(), by_peer[peer].end());
    }
    input_.resize(packed_.size() * mine.elements() + 1);  // never without memory
    if (!gathers_ || arriving == 0) received_.resize(arriving * mine.elements() + 1);
  }

  void run() {
    auto to = input_.begin();
    for (auto const expert : packed_) to = std::ranges::copy(mine_->given(expert), to).out;
    auto options = gloo::AlltoallvOptions{context_};
    options.setInput(input_.data(), in_);
    options.setOutput(received_.empty() ? mine_->to().tensors().front().data : received_.data(),
                      out_);
    gloo::alltoallv(options);
    if (gathers_) return;
    auto next = std::vector<T const*>{};  // [rank]: its next partial
    auto const* begin = received_.data();
    for (auto const elements : out_) {
      next.push_back(begin);
      begin += elements;
    }
    sum_received(*mine_, [&](fssdp::rank_id holder) {
      return std::exchange(next[holder.index()], next[holder.index()] + mine_->elements());
    });
  }

 private:
  rank_memory<T>* mine_;
  std::shared_ptr<gloo::Context> context_;
  bool gathers_;
  std::vector<std::int64_t> in_;   // [rank]: elements
  std::vector<std::int64_t> out_;  // [rank]: elements
  std::vector<fssdp::expert_id> packed_;
  std::vector<T> input_;
  std::vector<T> received_;
};

}  // namespace perf
