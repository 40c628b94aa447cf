// SPDX-License-Identifier: Apache-2.0
/// Ports that reach one another, and the items that wait to be sent between them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fssdp::detail {

/// A small set of ports: one bit for each.
using port_word = std::uint64_t;
inline constexpr std::size_t ports_per_word = 64;

[[nodiscard]] inline std::size_t words_for(int ports) {
  return (static_cast<std::size_t>(ports) + ports_per_word - 1) / ports_per_word;
}
[[nodiscard]] inline bool has_port(std::span<port_word const> set, int port) {
  auto const at = static_cast<std::size_t>(port);
  return ((set[at / ports_per_word] >> (at % ports_per_word)) & 1U) != 0;
}
inline void include_port(std::span<port_word> set, int port) {
  auto const at = static_cast<std::size_t>(port);
  set[at / ports_per_word] |= port_word{1} << (at % ports_per_word);
}
inline void exclude_port(std::span<port_word> set, int port) {
  auto const at = static_cast<std::size_t>(port);
  set[at / ports_per_word] &= ~(port_word{1} << (at % ports_per_word));
}
/// Calls function(port) for the ports that are in both sets, ascending.
template <class Function>
void for_each_common(std::span<port_word const> a, std::span<port_word const> b,
                     Function function) {
  for (std::size_t word = 0; word < a.size(); ++word)
    for (auto left = a[word] & b[word]; left != 0; left &= left - 1)
      function(static_cast<int>(word * ports_per_word) + std::countr_zero(left));
}

/// A group of full-duplex ports, any two of which can communicate while both are idle. For every
/// pair it keeps the items that one has and the other needs: the rarest first, then in order of
/// arrival.
class port_group {
 public:
  /// Items wait in classes: urgent ones; then by the number of ports that have them or are
  /// receiving them: 1, 2, 3 or 4, 5 to 8, more.
  static constexpr int classes = 6;
  static constexpr int urgent = 0;
  [[nodiscard]] static int rarity(int holders) {
    return std::min(1 + static_cast<int>(std::bit_width(static_cast<unsigned>(holders - 1))),
                    classes - 1);
  }
  static constexpr int nobody = -1;  // no port

  struct entry {
    int item;
    int feeder;  ///< the flow that brought it to the sender
    int next;
  };
  struct match {
    int out;
    int in;
    int item;
    int feeder;
  };

  /// @param busiest_first of ports that become idle together, the one with most to send chooses
  ///                      first; otherwise in the order in which they became idle
  explicit port_group(int ports, bool busiest_first = false)
      : ports_{static_cast<std::size_t>(ports)},
        words_{words_for(ports)},
        queues_(ports_ * ports_ * classes),
        for_in_(ports_ * words_),
        from_out_(ports_ * words_),
        idle_out_(words_),
        idle_in_(words_),
        to_come_(ports_),
        assigned_(ports_),
        waiting_(ports_),
        busiest_first_{busiest_first} {
    for (int port = 0; port < ports; ++port) {
      include_port(idle_out_, port);
      include_port(idle_in_, port);
    }
  }

  /// Announces one more item for each of these ports; fulfilled: one fewer.
  void expect(std::span<port_word const> wanted) {
    for_each_common(wanted, wanted, [&](int in) { ++to_come_[static_cast<std::size_t>(in)]; });
  }
  void satisfy(int in) { --to_come_[static_cast<std::size_t>(in)]; }
  [[nodiscard]] int to_come(int in) const { return to_come_[static_cast<std::size_t>(in)]; }

  /// `out` has an item that the ports in `wanted` need, one of them urgently.
  void offer(int out, int item, int feeder, std::span<port_word const> wanted, int holders,
             int urgently = nobody) {
    for_each_common(wanted, wanted, [&](int in) {
      push(out, in, in == urgently ? urgent : rarity(holders), item, feeder);
      include_port(row(for_in_, out), in);
      include_port(row(from_out_, in), out);
    });
    if (has_port(idle_out_, out)) fresh_out_.push_back(out);
  }
  /// The transfer between two ports has ended.
  void release(int out, int in) {
    include_port(idle_out_, out);
    include_port(idle_in_, in);
    fresh_out_.push_back(out);
    fresh_in_.push_back(in);
  }

  /// Matches idle ports that can exchange an item, and calls start(match) for each pair.
  /// @param wants(item, in)   whether a port still needs an item
  /// @param holders(item)     how many ports have it
  /// @param backlog(in)       ports with urgent items are matched by ascending backlog
  template <class Wants, class Holders, class Backlog, class Start>
  void bring_together(Wants wants, Holders holders, Backlog backlog, Start start) {
    auto const settle = [&](candidate const& best) {
      if (best.out < 0) return;
      auto& list = queue_of(best.out, best.in, best.rarity);
      auto const taken = pool_[static_cast<std::size_t>(list.head)];
      pop(list);
      --waiting_[static_cast<std::size_t>(best.out)];
      exclude_port(idle_out_, best.out);
      exclude_port(idle_in_, best.in);
      satisfy(best.in);
      ++assigned_[static_cast<std::size_t>(best.out)];
      start(match{best.out, best.in, taken.item, taken.feeder});
    };
    if (busiest_first_)
      std::ranges::stable_sort(fresh_out_, {},
                               [&](int out) { return -waiting_[static_cast<std::size_t>(out)]; });
    for (std::size_t i = 0; i < fresh_out_.size(); ++i) {
      auto const out = fresh_out_[i];
      if (!has_port(idle_out_, out)) continue;
      auto best = candidate{};
      for_each_common(row(for_in_, out), idle_in_,
                      [&](int in) { consider(best, out, in, wants, holders, backlog); });
      settle(best);
    }
    for (std::size_t i = 0; i < fresh_in_.size(); ++i) {
      auto const in = fresh_in_[i];
      if (!has_port(idle_in_, in)) continue;
      auto best = candidate{};
      for_each_common(row(from_out_, in), idle_out_,
                      [&](int out) { consider(best, out, in, wants, holders, backlog); });
      settle(best);
    }
    fresh_out_.clear();
    fresh_in_.clear();
  }

 private:
  struct waiting_list {
    int head = -1;
    int tail = -1;
  };
  struct candidate {
    int out = -1;
    int in = -1;
    int rarity = 0;
    int item = 0;
    std::array<int, 4> key = {};  // smaller is better
  };

  [[nodiscard]] std::span<port_word> row(std::vector<port_word>& sets, int port) const {
    return {sets.data() + static_cast<std::size_t>(port) * words_, words_};
  }
  [[nodiscard]] waiting_list& queue_of(int out, int in, int rarity) {
    auto const pair = static_cast<std::size_t>(out) * ports_ + static_cast<std::size_t>(in);
    return queues_[pair * classes + static_cast<std::size_t>(rarity)];
  }

  void push(int out, int in, int rarity, int item, int feeder) {
    auto at = free_;
    if (at >= 0) {
      free_ = pool_[static_cast<std::size_t>(at)].next;
    } else {
      at = static_cast<int>(pool_.size());
      pool_.emplace_back();
    }
    pool_[static_cast<std::size_t>(at)] = {item, feeder, -1};
    ++waiting_[static_cast<std::size_t>(out)];
    auto& to = queue_of(out, in, rarity);
    if (to.tail >= 0)
      pool_[static_cast<std::size_t>(to.tail)].next = at;
    else
      to.head = at;
    to.tail = at;
  }
  void pop(waiting_list& from) {
    auto const at = from.head;
    from.head = std::exchange(pool_[static_cast<std::size_t>(at)].next, free_);
    free_ = at;
    if (from.head < 0) from.tail = -1;
  }

  /// Makes the best item of a pair the candidate if it is better.
  template <class Wants, class Holders, class Backlog>
  void consider(candidate& best, int out, int in, Wants wants, Holders holders, Backlog backlog) {
    for (int rare = 0; rare < classes; ++rare) {
      auto& waiting = queue_of(out, in, rare);
      while (waiting.head >= 0) {
        auto const [item, feeder, next] = pool_[static_cast<std::size_t>(waiting.head)];
        auto const wanted = wants(item, in);
        auto const now = rare == urgent ? urgent : rarity(holders(item));
        if (!wanted || now != rare) {  // it was received from another port, or is no longer as rare
          pop(waiting);
          --waiting_[static_cast<std::size_t>(out)];
          if (wanted) push(out, in, now, item, feeder);
          continue;
        }
        auto const key = std::array{rare, rare == urgent ? backlog(in) : -to_come(in), item,
                                    assigned_[static_cast<std::size_t>(out)]};
        if (best.out < 0 || key < best.key) best = {out, in, rare, item, key};
        return;
      }
    }
    exclude_port(row(for_in_, out), in);
    exclude_port(row(from_out_, in), out);
  }

  std::size_t ports_;
  std::size_t words_;
  std::vector<waiting_list> queues_;  // [out, in, class]
  std::vector<port_word> for_in_;     // [out]: the ports that need something it has
  std::vector<port_word> from_out_;   // [in]: the ports that have something it needs
  std::vector<port_word> idle_out_;
  std::vector<port_word> idle_in_;
  std::vector<int> to_come_;   // [in]: items that it has not begun to receive
  std::vector<int> assigned_;  // [out]: items that it has sent or begun to send
  std::vector<int> waiting_;   // [out]: entries in its queues
  bool busiest_first_;
  std::vector<entry> pool_;  // of all queues
  int free_ = -1;
  std::vector<int> fresh_out_;  // idle ports that may have new matches
  std::vector<int> fresh_in_;
};

}  // namespace fssdp::detail
