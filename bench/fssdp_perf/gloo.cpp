// SPDX-License-Identifier: Apache-2.0
// The baselines of Gloo.
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "gloo_all_to_all.hpp"
#include "gloo_blocks.hpp"
#include "gloo_contestant.hpp"

namespace perf {
namespace {

using context = std::shared_ptr<gloo::Context>;
using members = std::vector<fssdp::rank_id>;  // ascending

[[nodiscard]] int place_in(members const& who, fssdp::rank_id rank) {
  return static_cast<int>(std::lower_bound(who.begin(), who.end(), rank) - who.begin());
}

/// A rank as a process would see it: a device, and so a thread that listens, of its own.
class connector {
 public:
  connector(gloo::rendezvous::HashStore& addresses, fssdp::rank_id me)
      : addresses_{&addresses}, me_{me} {}

  [[nodiscard]] context connect(members const& who) {
    auto name = std::string{};
    for (auto const rank : who) name += std::to_string(rank.value()) + ",";
    auto store = gloo::rendezvous::PrefixStore{name, *addresses_};
    auto const made = std::make_shared<gloo::rendezvous::Context>(place_in(who, me_),
                                                                  static_cast<int>(who.size()));
    made->connectFullMesh(store, device_);
    return made;
  }

 private:
  gloo::rendezvous::HashStore* addresses_;
  fssdp::rank_id me_;
  std::shared_ptr<gloo::transport::Device> device_ =
      gloo::transport::tcp::CreateDevice("127.0.0.1");
};

/// One rank's calls, one for each expert that it holds with others; equal sets share a context.
template <class T>
class gloo_in_turn {
 public:
  gloo_in_turn(rank_memory<T>& mine, connector connect) : mine_{&mine} {
    auto known = std::map<members, context>{};
    auto const& plan = mine.plan();
    for (auto const expert : plan.materialized(mine.rank())) {
      auto who = members{};
      for (auto const rank : plan.where().holders(expert)) who.push_back(rank);
      if (who.size() == 1 || mine.elements(expert) == 0) continue;
      auto& made = known[who];
      if (made == nullptr) made = connect.connect(who);
      calls_.push_back({expert, made, place_in(who, plan.owner(expert))});
    }
    if (mine.which() == collective::rs) unused_.resize(mine.most_elements());
  }

  void run() {
    if (mine_->plan().has_rows() && mine_->which() == collective::ag) copy_own();
    for (auto const& one : calls_)
      if (mine_->which() == collective::ag)
        broadcast(one);
      else
        reduce(one);
    if (mine_->which() == collective::ag) return;
    for (auto const expert : mine_->wanted())
      if (mine_->plan().where().holders(expert).size() == 1)
        std::ranges::copy(mine_->given(expert), mine_->taken(expert).begin());
  }

 private:
  struct call {
    fssdp::expert_id expert;
    context among;
    int root;
  };
  [[nodiscard]] bool owns(fssdp::expert_id expert) const {
    return mine_->plan().owner(expert) == mine_->rank();
  }

  /// Of an array the own block has a place in the result.
  void copy_own() {
    for (auto const expert : mine_->wanted())
      if (owns(expert)) std::ranges::copy(mine_->given(expert), mine_->taken(expert).begin());
  }
  void broadcast(call const& of) {
    auto options = gloo::BroadcastOptions{of.among};
    auto* const data = owns(of.expert)
                           ? const_cast<T*>(mine_->given(of.expert).data())  // only read
                           : mine_->taken(of.expert).data();
    options.setOutput(data, mine_->elements(of.expert));
    options.setRoot(of.root);
    gloo::broadcast(options);
  }
  void reduce(call const& of) {
    if constexpr (std::is_floating_point_v<T>) {
      auto options = gloo::ReduceOptions{of.among};
      options.setInput(const_cast<T*>(mine_->given(of.expert).data()), mine_->elements(of.expert));
      options.setOutput(owns(of.expert) ? mine_->taken(of.expert).data() : unused_.data(),
                        mine_->elements(of.expert));
      options.setRoot(of.root);
      options.setReduceFunction([](void* out, void const* a, void const* b, std::size_t n) {
        gloo::sum<T>(out, a, b, n);
      });
      gloo::reduce(options);
    }
  }

  rank_memory<T>* mine_;
  std::vector<call> calls_;
  std::vector<T> unused_;  // Gloo wants an output on every rank
};

/// Makes a player for each rank, all at once as they connect, and lets each play on its thread.
template <class Player, class T, class Make>
[[nodiscard]] contestant contestant_of(baseline which, std::deque<rank_memory<T>>& of, Make make) {
  auto made = std::vector<std::future<std::shared_ptr<Player>>>{};
  for (auto& memory : of)
    made.push_back(std::async(std::launch::async, [&] { return make(memory); }));
  auto players = std::vector<std::shared_ptr<Player>>{};
  for (auto& player : made) players.push_back(player.get());
  return {.name = std::string{name_of(which)},
          .on_threads = [players](fssdp::thread_communicator& comm) {
            players[comm.rank().index()]->run();
          }};
}

template <class T>
[[nodiscard]] contestant contestant_on(baseline which, world_memory<T>& of) {
  auto addresses = gloo::rendezvous::HashStore{};
  auto const with_all = [&](rank_memory<T> const& mine) {
    auto const all = fssdp::first_n<fssdp::rank_id>(mine.plan().ranks());
    return connector{addresses, mine.rank()}.connect({all.begin(), all.end()});
  };
  if (which == baseline::gloo)
    return contestant_of<gloo_all_to_all<T>>(which, of, [&](rank_memory<T>& mine) {
      return std::make_shared<gloo_all_to_all<T>>(mine, with_all(mine));
    });
  if (which == baseline::gloo_v)
    return contestant_of<gloo_blocks<T>>(which, of, [&](rank_memory<T>& mine) {
      return std::make_shared<gloo_blocks<T>>(mine, with_all(mine));
    });
  return contestant_of<gloo_in_turn<T>>(which, of, [&](rank_memory<T>& mine) {
    return std::make_shared<gloo_in_turn<T>>(mine, connector{addresses, mine.rank()});
  });
}

}  // namespace

void require_gloo() {}

contestant gloo_contestant(baseline which, any_world_memory of) {
  return of.visit([which](auto& memory) { return contestant_on(which, memory); });
}

}  // namespace perf
