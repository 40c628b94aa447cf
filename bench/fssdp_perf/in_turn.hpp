// SPDX-License-Identifier: Apache-2.0
/// One broadcast or reduction per expert, expert after expert, between ranks that lend each other
/// their memory.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "contestant.hpp"
#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/comm/thread/thread_communicator.hpp"
#include "fssdp/element/accumulate.hpp"
#include "rank_memory.hpp"
#include "sum_elements.hpp"

namespace perf {

/// One edge of a binomial tree; in a reduction it is read backwards.
struct tree_edge {
  fssdp::rank_id parent;
  fssdp::rank_id child;
};

/// The levels of a binomial tree over the holders of an expert, the owner at its root: in each
/// level every rank that has the expert sends it to one that does not.
[[nodiscard]] inline std::vector<std::vector<tree_edge>> binomial_tree(
    fssdp::transfer_plan const& plan, fssdp::expert_id expert) {
  auto order = std::vector<fssdp::rank_id>{plan.owner(expert)};
  for (auto const rank : plan.where().holders(expert))
    if (rank != plan.owner(expert)) order.push_back(rank);
  auto levels = std::vector<std::vector<tree_edge>>{};
  for (std::size_t have = 1; have < order.size(); have *= 2) {
    auto& level = levels.emplace_back();
    for (auto i = have; i < std::min(2 * have, order.size()); ++i)
      level.push_back({order[i - have], order[i]});
  }
  return levels;
}

namespace detail {

/// The turns of one rank.
template <class Comm, class Memory>
class turns {
  using T = typename Memory::value_type;

 public:
  explicit turns(Memory& mine) : mine_{&mine}, me_{mine.rank()} {
    auto const experts = fssdp::first_n<fssdp::expert_id>(mine.plan().experts());
    for (auto const expert : experts) trees_.push_back(binomial_tree(mine.plan(), expert));
    if (mine.which() == collective::ag) return;
    for (auto& buffer : buffers_) buffer = mine.make_block(mine.most_elements() * sizeof(T));
  }

  /// Ranks outside a tree go on at once; they take part so that the ranks' exchanges match.
  void broadcast(Comm& comm) {
    for (auto const expert : mine_->wanted())  // of an array also the own block
      if (mine_->plan().owner(expert) == me_)
        fssdp::detail::copy_on(fssdp::communicator_ref{comm}, std::as_bytes(mine_->given(expert)),
                               std::as_writable_bytes(mine_->taken(expert)));
    for (std::size_t e = 0; e < trees_.size(); ++e)
      for (auto const& level : trees_[e])
        comm.exchange([&](auto& batch) {
          for (auto const& edge : level) {
            auto const expert = fssdp::expert_id{e};
            if (edge.parent == me_) batch.send(std::as_bytes(copy_of(expert)), edge.child);
            if (edge.child == me_)
              batch.recv(std::as_writable_bytes(mine_->taken(expert)), edge.parent);
          }
        });
  }

  void reduce(Comm& comm) {
    for (std::size_t e = 0; e < trees_.size(); ++e) {
      auto const expert = fssdp::expert_id{e};
      auto const& plan = mine_->plan();
      if (plan.where().holds(me_, expert)) sum_ = mine_->given(expert);
      for (auto level = trees_[e].rbegin(); level != trees_[e].rend(); ++level)
        reduce_level(comm, expert, *level, level + 1 == trees_[e].rend());
      if (trees_[e].empty() && plan.owner(expert) == me_) add(comm, expert, {}, true);
    }
  }

 private:
  [[nodiscard]] std::span<T const> copy_of(fssdp::expert_id expert) {
    if (mine_->plan().owner(expert) == me_) return mine_->given(expert);
    return mine_->taken(expert);
  }
  [[nodiscard]] std::span<T> buffer(std::size_t i, fssdp::expert_id expert) const {
    return {reinterpret_cast<T*>(buffers_[i].get()), mine_->elements(expert)};
  }

  void reduce_level(Comm& comm, fssdp::expert_id expert, std::vector<tree_edge> const& level,
                    bool last) {
    comm.lend(
        [&](auto& batch) {
          for (auto const& edge : level) {
            if (edge.child == me_) batch.send(std::as_bytes(sum_), edge.parent);
            if (edge.parent == me_) batch.borrow(sum_.size_bytes(), edge.child);
          }
        },
        [&](std::span<std::span<std::byte const> const> lent) {
          for (auto const& bytes : lent)
            add(comm, expert, {reinterpret_cast<T const*>(bytes.data()), mine_->elements(expert)},
                last);
        });
  }
  /// Adds to the sum so far; the last time at the owner, into its gradient.
  void add(Comm& comm, fssdp::expert_id expert, std::span<T const> other, bool last) {
    auto const at_owner = mine_->plan().owner(expert) == me_;
    auto const in_first = sum_.data() == buffer(0, expert).data();
    auto const to = last && at_owner ? mine_->taken(expert) : buffer(in_first ? 1 : 0, expert);
    auto const both =
        std::array{fssdp::summand{.partial = sum_.data()}, fssdp::summand{.partial = other.data()}};
    sum_elements(comm, std::span{both}.first(other.empty() ? 1 : 2), to);
    sum_ = to;
  }

  using block = decltype(std::declval<Memory&>().make_block(0));

  Memory* mine_;
  fssdp::rank_id me_;
  std::vector<std::vector<std::vector<tree_edge>>> trees_;  // [expert]: levels
  std::array<block, 2> buffers_ = {};                       // for sums on the way
  std::span<T const> sum_;
};

}  // namespace detail

/// @param of [rank]
template <fssdp::lending_communicator Comm = fssdp::thread_communicator, class Memory>
[[nodiscard]] basic_contestant<Comm> in_turn(std::deque<Memory>& of) {
  auto const ranks = std::make_shared<std::deque<detail::turns<Comm, Memory>>>();
  for (auto& memory : of) ranks->emplace_back(memory);
  return {.name = "broadcast", .on_threads = [ranks, &of](Comm& comm) {
            auto& mine = (*ranks)[comm.rank().index()];
            if (of.front().which() == collective::ag)
              mine.broadcast(comm);
            else
              mine.reduce(comm);
          }};
}

}  // namespace perf
