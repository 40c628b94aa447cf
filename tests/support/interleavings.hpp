// SPDX-License-Identifier: Apache-2.0
/// An abstract model of ranks that execute a plan, and a search of everything that may happen.
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

namespace support {

/// A message, and those whose content it passes on.
struct abstract_message {
  std::size_t from;
  std::size_t to;
  std::vector<std::size_t> feeders = {};  ///< have to arrive first
};

/// A send or a receive of a message.
struct abstract_deed {
  enum class kind { send, receive };
  kind what;
  std::size_t message;
};

/// What the ranks do: each has batches, one after the other; within a batch all is under way at
/// once. [rank][batch][deed]
struct abstract_program {
  using batch = std::vector<abstract_deed>;
  std::vector<abstract_message> messages;
  std::vector<std::vector<batch>> ranks;
};

/// Searches all interleavings over mailboxes with `slots` slots for every ordered pair of ranks; no
/// slots: a message goes when both ends are there.
class interleavings {
 public:
  interleavings(abstract_program const& of, std::size_t slots) : of_{of}, slots_{slots} {
    visit({std::vector<place>(of.messages.size(), place::sender),
           std::vector<std::size_t>(of.ranks.size(), 0)});
  }

  /// States that can be reached.
  [[nodiscard]] std::size_t states() const { return seen_.size(); }
  /// Of these: nothing can happen any more, and some rank has not finished.
  [[nodiscard]] std::size_t deadlocks() const { return deadlocks_; }
  /// Among them: everybody has finished.
  [[nodiscard]] std::size_t ends() const { return ends_; }

 private:
  enum class place { sender, mailbox, receiver };
  struct state {
    std::vector<place> messages;
    std::vector<std::size_t> batches;  // [rank]: the current one
    auto operator<=>(state const&) const = default;
  };

  /// Ranks whose batch is done begin the next.
  void settle(state& now) const {
    for (std::size_t rank = 0; rank < of_.ranks.size(); ++rank)
      while (now.batches[rank] < of_.ranks[rank].size() &&
             std::ranges::all_of(of_.ranks[rank][now.batches[rank]],
                                 [&](abstract_deed const& deed) { return done(now, deed); }))
        ++now.batches[rank];
  }
  [[nodiscard]] bool done(state const& now, abstract_deed const& deed) const {
    auto const where = now.messages[deed.message];
    return where == place::receiver ||
           (where == place::mailbox && deed.what == abstract_deed::kind::send);
  }
  /// Whether a rank is in a batch with this deed.
  [[nodiscard]] bool is_at(state const& now, std::size_t rank, abstract_deed::kind what,
                           std::size_t message) const {
    if (now.batches[rank] == of_.ranks[rank].size()) return false;
    return std::ranges::any_of(of_.ranks[rank][now.batches[rank]], [&](abstract_deed const& deed) {
      return deed.what == what && deed.message == message;
    });
  }
  [[nodiscard]] bool can_go(state const& now, std::size_t m) const {
    auto const& message = of_.messages[m];
    return now.messages[m] == place::sender &&
           is_at(now, message.from, abstract_deed::kind::send, m) &&
           std::ranges::all_of(message.feeders, [&](std::size_t feeder) {
             return now.messages[feeder] == place::receiver;
           });
  }
  [[nodiscard]] bool can_come(state const& now, std::size_t m) const {
    return is_at(now, of_.messages[m].to, abstract_deed::kind::receive, m);
  }
  [[nodiscard]] bool has_room(state const& now, std::size_t m) const {
    auto taken = std::size_t{0};
    for (std::size_t other = 0; other < of_.messages.size(); ++other)
      taken += now.messages[other] == place::mailbox &&
                       of_.messages[other].from == of_.messages[m].from &&
                       of_.messages[other].to == of_.messages[m].to
                   ? 1
                   : 0;
    return taken < slots_;
  }

  void visit(state now) {
    settle(now);
    if (!seen_.insert(now).second) return;
    auto successors = 0;
    auto const move = [&](std::size_t m, place where) {
      auto next = now;
      next.messages[m] = where;
      ++successors;
      visit(next);
    };
    for (std::size_t m = 0; m < of_.messages.size(); ++m) {
      if (slots_ == 0 && can_go(now, m) && can_come(now, m)) move(m, place::receiver);
      if (slots_ != 0 && can_go(now, m) && has_room(now, m)) move(m, place::mailbox);
      if (now.messages[m] == place::mailbox && can_come(now, m)) move(m, place::receiver);
    }
    if (successors != 0) return;
    auto all_through = true;
    for (std::size_t rank = 0; rank < of_.ranks.size(); ++rank)
      all_through = all_through && now.batches[rank] == of_.ranks[rank].size();
    ++(all_through ? ends_ : deadlocks_);
  }

  abstract_program const& of_;
  std::size_t slots_;
  std::set<state> seen_;
  std::size_t deadlocks_ = 0;
  std::size_t ends_ = 0;
};

}  // namespace support
