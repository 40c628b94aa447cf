// SPDX-License-Identifier: Apache-2.0
/// NCCL: communicators, groups of messages, and its rules.
#include <nccl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <sstream>
#include <utility>

#include "gpu_double/gpu_double.hpp"

namespace {

template <class... Parts>
std::string text(Parts const&... parts) {
  auto out = std::ostringstream{};
  (out << ... << parts);
  return out.str();
}

/// What a sender has for a receiver; the receiver copies it.
struct letter {
  std::byte const* bytes;
  std::size_t size;
  bool collective;
  std::uint64_t group;
  std::shared_ptr<bool> taken;
};

/// The ranks that have met under one id.
struct clique {
  explicit clique(int ranks)
      : size{static_cast<std::size_t>(ranks)},
        letters(size * size),
        groups(size * size),
        windows(size),
        errors(size, ncclSuccess),
        aborted(size, false) {}

  [[nodiscard]] std::deque<letter>& box(std::size_t from, std::size_t to) {
    return letters[from * size + to];
  }
  /// A rank that has opened fewer windows than this one, or -1.
  [[nodiscard]] int missing_at_window(std::size_t rank) const {
    for (std::size_t peer = 0; peer < size; ++peer)
      if (windows[peer].size() < windows[rank].size()) return static_cast<int>(peer);
    return -1;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::size_t size;
  std::size_t joined = 0;
  std::size_t finalized = 0;
  std::vector<std::deque<letter>> letters;  // [from, to]
  std::vector<std::uint64_t> groups;        // [rank, peer]: how many groups with messages between
  std::vector<std::vector<std::size_t>> windows;    // [rank]: the bytes of all that it has opened
  std::vector<ncclResult_t> errors;                 // [rank]
  std::vector<bool> aborted;                        // [rank]
  std::map<int, std::shared_ptr<clique>> children;  // by the number of the split
  /// By the ranks that are left out, and how often they have been.
  std::map<std::pair<std::vector<int>, int>, std::shared_ptr<clique>> shrunk;
};

/// How many pieces of work of a communicator are in graphs. It is freed only when none is.
class graph_uses {
 public:
  /// One more as long as it, or a copy of it, lives.
  [[nodiscard]] static std::shared_ptr<void> one_more(std::shared_ptr<graph_uses> const& uses) {
    auto const lock = std::scoped_lock{uses->mutex_};
    ++uses->count_;
    return {nullptr, [uses](void*) { uses->one_less(); }};
  }
  [[nodiscard]] bool none() {
    auto const lock = std::scoped_lock{mutex_};
    return count_ == 0;
  }
  void wait_for_none() {
    auto lock = std::unique_lock{mutex_};
    changed_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  void one_less() {
    auto const lock = std::scoped_lock{mutex_};
    --count_;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

/// One message, as its rank names it.
struct message {
  std::size_t peer;
  std::byte const* out;  // null: it comes in
  std::byte* in;
  std::size_t size;
  bool collective;
};

std::atomic<int> all_gathers_called = 0;

std::mutex registry_mutex;
std::map<int, std::shared_ptr<clique>> registry;

std::mutex arenas_mutex;
std::map<std::byte const*, std::size_t> arenas;  // of ncclMemAlloc: their bytes

[[nodiscard]] bool is_in_arena(std::byte const* memory, std::size_t bytes) {
  auto const lock = std::scoped_lock{arenas_mutex};
  auto const behind = arenas.upper_bound(memory);
  if (behind == arenas.begin()) return false;
  auto const& [arena, size] = *std::prev(behind);
  return memory + bytes <= arena + size && (memory - arena) % NCCL_WIN_REQUIRED_ALIGNMENT == 0;
}

}  // namespace

struct ncclComm {
  /// How many there are.
  struct one_of_all {
    static inline std::atomic<int> count = 0;
    one_of_all() { ++count; }
    one_of_all(one_of_all const&) { ++count; }
    ~one_of_all() { --count; }
  };

  std::shared_ptr<clique> among;
  std::size_t rank;
  bool blocks;
  int splits = 0;
  std::map<std::vector<int>, int> shrinks = {};
  bool finalizing = false;
  int polls = 0;                                    // until it is not in progress any more
  std::vector<std::function<void()>> pending = {};  // what it does then
  std::vector<std::unique_ptr<int>> registrations = {};
  std::vector<std::unique_ptr<int>> windows = {};  // that are open
  std::shared_ptr<graph_uses> graphs = std::make_shared<graph_uses>();
  one_of_all counted = {};
};

namespace {

/// What a group of a rank does, in the thread of its stream.
class group_run {
 public:
  group_run(std::shared_ptr<clique> among, std::size_t rank, std::vector<message> messages)
      : among_{std::move(among)}, rank_{rank}, messages_{std::move(messages)} {}

  void operator()() {
    auto lock = std::unique_lock{among_->mutex};
    if (among_->aborted[rank_]) return;
    auto const injected =
        static_cast<ncclResult_t>(gpu_double::injected_error(static_cast<int>(rank_)));
    if (injected != ncclSuccess) {
      among_->errors[rank_] = injected;
      among_->changed.wait(lock, [this] { return among_->aborted[rank_]; });
      return;
    }
    post();
    auto told = false;
    while (!among_->aborted[rank_]) {
      if (receive()) among_->changed.notify_all();
      if (std::ranges::all_of(done_, [](auto const& done) { return *done; })) return;
      auto const waited = among_->changed.wait_for(lock, gpu_double::current().report_after);
      if (waited == std::cv_status::timeout && !std::exchange(told, true)) tell_unmatched();
    }
    withdraw();
  }

 private:
  /// Leaves what is sent, and numbers the group between each two ranks.
  void post() {
    auto met = std::vector<bool>(among_->size);
    for (auto const& m : messages_) {
      auto& number = among_->groups[rank_ * among_->size + m.peer];
      if (!met[m.peer]) ++number;
      met[m.peer] = true;
      done_.push_back(std::make_shared<bool>(false));
      if (m.out != nullptr)
        among_->box(rank_, m.peer).push_back({m.out, m.size, m.collective, number, done_.back()});
    }
    among_->changed.notify_all();
  }
  /// Takes what has come for the next message of each peer. Returns whether there was anything.
  bool receive() {
    auto moved = false;
    auto blocked = std::vector<bool>(among_->size);  // a message of that peer is still to come
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      auto const& m = messages_[i];
      if (m.out != nullptr || *done_[i] || blocked[m.peer]) continue;
      auto& box = among_->box(m.peer, rank_);
      if (box.empty() || !matches(m, box.front())) {
        blocked[m.peer] = true;
        continue;
      }
      std::memcpy(m.in, box.front().bytes, m.size);
      *box.front().taken = true;
      *done_[i] = true;
      box.pop_front();
      moved = true;
    }
    return moved;
  }
  [[nodiscard]] bool matches(message const& m, letter const& from) {
    auto const number = among_->groups[rank_ * among_->size + m.peer];
    auto what = std::string{};
    if (m.collective != from.collective)
      what = "a message meets a collective";
    else if (m.size != from.size)
      what = text("a message of ", from.size, " bytes meets one of ", m.size);
    else if (number != from.group)
      what = text("group ", from.group, " of one end meets group ", number, " of the other");
    if (what.empty()) return true;
    for (auto const rank : {rank_, m.peer}) {
      if (among_->errors[rank] == ncclSuccess)
        gpu_double::report(text("from rank ", m.peer, " to rank ", rank_, ": ", what));
      among_->errors[rank] = ncclInvalidUsage;
    }
    return false;
  }
  void tell_unmatched() {
    for (std::size_t i = 0; i < messages_.size(); ++i)
      if (!*done_[i])
        gpu_double::report(
            text("unmatched: rank ", rank_, messages_[i].out != nullptr ? " sends " : " awaits ",
                 messages_[i].size, " bytes",
                 messages_[i].out != nullptr ? " to rank " : " from rank ", messages_[i].peer));
  }
  void withdraw() {
    for (std::size_t to = 0; to < among_->size; ++to) among_->box(rank_, to).clear();
  }

  std::shared_ptr<clique> among_;
  std::size_t rank_;
  std::vector<message> messages_;
  std::vector<std::shared_ptr<bool>> done_;
};

/// A group that a thread has open, or one call by itself.
struct open_group {
  int depth = 0;
  bool broken = false;
  struct named {
    ncclComm_t comm;
    cudaStream_t stream;
    message what;
  };
  std::vector<named> messages;
};
thread_local open_group group;

[[nodiscard]] bool overlap(message const& out, message const& in) {
  return out.out < in.in + in.size && in.in < out.out + out.size;
}

/// What no group may do.
[[nodiscard]] bool is_legal(std::vector<open_group::named> const& messages) {
  for (auto const& a : messages)
    for (auto const& b : messages) {
      if (&a == &b || a.comm != b.comm || b.what.in == nullptr) continue;
      auto const relays = a.what.out != nullptr && overlap(a.what, b.what);
      auto const twice = a.what.in != nullptr && a.what.in < b.what.in + b.what.size &&
                         b.what.in < a.what.in + a.what.size;
      if (!relays && !twice) continue;
      gpu_double::report(text("rank ", a.comm->rank, relays ? " sends" : " receives",
                              " in a group what the group receives"));
      return false;
    }
  return true;
}

/// Does it now, or when the communicator has been asked often enough.
ncclResult_t start(ncclComm_t comm, std::function<void()> work) {
  if (comm->blocks) {
    work();
    return ncclSuccess;
  }
  comm->pending.push_back(std::move(work));
  comm->polls = gpu_double::current().polls;
  return ncclInProgress;
}

/// Likewise, by a call that says nothing of it: some of NCCL's do, in some versions.
ncclResult_t in_progress_unsaid(ncclComm_t comm, std::function<void()> work) {
  auto const code = start(comm, std::move(work));
  return code == ncclInProgress ? ncclSuccess : code;
}

/// Puts work of a communicator on a stream, or into the graph that it captures.
void enqueue(ncclComm_t comm, cudaStream_t stream, std::function<void()> work) {
  auto captures = cudaStreamCaptureStatusNone;
  (void)cudaStreamIsCapturing(stream, &captures);
  auto use = captures == cudaStreamCaptureStatusNone ? nullptr : graph_uses::one_more(comm->graphs);
  (void)gpu_double::enqueue(stream, [use, work] { work(); });
}

using named_messages = std::vector<open_group::named>;

void change_order(named_messages& messages) {
  for (auto& a : messages)
    for (auto& b : messages) {
      if (a.what.out == nullptr || b.what.out == nullptr || a.what.peer != b.what.peer) continue;
      if (a.what.size != b.what.size) return std::swap(a.what, b.what);
    }
}
void lose_message(named_messages& messages) {
  auto const last = std::find_if(messages.rbegin(), messages.rend(),
                                 [](auto const& m) { return m.what.out != nullptr; });
  if (last != messages.rend()) messages.erase(std::prev(last.base()));
}
void relay(named_messages& messages) {
  for (auto& a : messages)
    for (auto const& b : messages)
      if (a.what.out != nullptr && b.what.in != nullptr) {
        a.what.out = b.what.in;
        return;
      }
}

/// What a mutated back end makes of a group.
[[nodiscard]] std::vector<named_messages> mutated(named_messages messages) {
  using gpu_double::mutation;
  auto const how = gpu_double::current().back_end;
  if (messages.empty() || messages.front().comm->rank != 0 || how == mutation::none)
    return {std::move(messages)};
  if (how == mutation::other_order) change_order(messages);
  if (how == mutation::lost_message) lose_message(messages);
  if (how == mutation::relay) relay(messages);
  if (how != mutation::two_groups || messages.size() < 2) return {std::move(messages)};
  return {{messages.front()}, {messages.begin() + 1, messages.end()}};
}

ncclResult_t start_group(named_messages const& messages);

ncclResult_t close_group() {
  auto const broken = std::exchange(group.broken, false);
  auto const groups = mutated(std::exchange(group.messages, {}));
  auto result = broken ? ncclInvalidUsage : ncclSuccess;
  for (auto const& messages : groups) {
    if (result != ncclSuccess && result != ncclInProgress) break;
    auto const code = start_group(messages);
    if (code != ncclSuccess) result = code;
  }
  return result;
}

ncclResult_t start_group(named_messages const& messages) {
  if (!is_legal(messages)) return ncclInvalidUsage;
  auto result = ncclSuccess;
  auto left = std::span{messages};
  while (!left.empty()) {  // of each communicator, one after the other
    auto* const comm = left.front().comm;
    auto const last = std::ranges::find_if(left, [&](auto const& m) { return m.comm != comm; });
    auto const mine = left.first(static_cast<std::size_t>(last - left.begin()));
    auto whats = std::vector<message>{};
    for (auto const& m : mine) whats.push_back(m.what);
    auto const stream = mine.front().stream;
    auto run = group_run{comm->among, comm->rank, std::move(whats)};
    auto const code =
        start(comm, [comm, stream, run] { enqueue(comm, stream, [run] { group_run{run}(); }); });
    if (code != ncclSuccess) result = code;
    left = left.subspan(mine.size());
  }
  return result;
}

/// Whether a communicator may be called.
[[nodiscard]] bool is_ready(ncclComm_t comm, char const* call) {
  if (comm == nullptr) return false;
  if (comm->polls == 0) return true;
  gpu_double::report(text(call, " on rank ", comm->rank, " while it is in progress"));
  return false;
}

ncclResult_t name(ncclComm_t comm, cudaStream_t stream, message const& what) {
  auto const* const memory = what.out != nullptr ? what.out : what.in;
  if (!is_ready(comm, "ncclSend or ncclRecv") || what.peer >= comm->among->size) {
    group.broken = group.depth != 0;
    return ncclInvalidArgument;
  }
  if (gpu_double::current().only_device_memory && !gpu_double::is_device_memory(memory, what.size))
    gpu_double::report(text("rank ", comm->rank, " names memory that is no device's"));
  group.messages.push_back({comm, stream, what});
  return group.depth == 0 ? close_group() : ncclSuccess;
}

ncclResult_t join(ncclComm_t* comm, std::shared_ptr<clique> const& among, int rank, bool blocks) {
  *comm = std::make_unique<ncclComm>(
              ncclComm{.among = among, .rank = static_cast<std::size_t>(rank), .blocks = blocks})
              .release();
  auto lock = std::unique_lock{among->mutex};
  ++among->joined;
  among->changed.notify_all();
  if (!blocks) return ncclInProgress;
  among->changed.wait(lock, [&] { return among->joined == among->size; });
  return ncclSuccess;
}

}  // namespace

int gpu_double::all_gathers() { return all_gathers_called; }
int gpu_double::live_communicators() { return ncclComm::one_of_all::count; }

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
char const* ncclGetErrorString(ncclResult_t result) {
  constexpr auto names = std::array{"no error",
                                    "unhandled cuda error",
                                    "system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return names.at(static_cast<std::size_t>(result));
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static auto last = std::atomic{0};
  auto const number = ++last;
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->internal, &number, sizeof(number));
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  auto number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  auto among = std::shared_ptr<clique>{};
  {
    auto const lock = std::scoped_lock{registry_mutex};
    auto& entry = registry[number];
    if (entry == nullptr) entry = std::make_shared<clique>(ranks);
    among = entry;
  }
  return join(comm, among, rank, config == nullptr || config->blocking != 0);
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int, int key, ncclComm_t* child, ncclConfig_t* config) {
  if (!is_ready(comm, "ncclCommSplit")) return ncclInvalidUsage;
  auto among = std::shared_ptr<clique>{};
  {
    auto const lock = std::scoped_lock{comm->among->mutex};
    auto& entry = comm->among->children[comm->splits++];
    if (entry == nullptr) entry = std::make_shared<clique>(static_cast<int>(comm->among->size));
    among = entry;
  }
  auto const blocks = config == nullptr ? comm->blocks : config->blocking != 0;
  return in_progress_unsaid(comm, [=] { (void)join(child, among, key, blocks); });
}

namespace {

/// Ends what a communicator has on streams, once and for all.
void end_all(ncclComm_t comm) {
  auto const lock = std::scoped_lock{comm->among->mutex};
  comm->among->aborted[comm->rank] = true;
  for (std::size_t to = 0; to < comm->among->size; ++to) comm->among->box(comm->rank, to).clear();
  comm->among->changed.notify_all();
}

}  // namespace

/// With NCCL_SHRINK_ABORT what is under way ends, and nothing runs on the parent any more.
ncclResult_t ncclCommShrink(ncclComm_t comm, int* lost, int count, ncclComm_t* child,
                            ncclConfig_t* config, int flags) {
  auto const ends_all = (flags & NCCL_SHRINK_ABORT) != 0;
  if (!ends_all && !is_ready(comm, "ncclCommShrink")) return ncclInvalidUsage;
  auto without = std::vector<int>(lost, lost + std::max(count, 0));
  std::ranges::sort(without);
  auto const me = static_cast<int>(comm->rank);
  auto const left = static_cast<int>(comm->among->size) - count;
  if (count < 1 || left < 1 || std::ranges::binary_search(without, me)) return ncclInvalidArgument;
  if (ends_all) end_all(comm);
  auto among = std::shared_ptr<clique>{};
  {
    auto const lock = std::scoped_lock{comm->among->mutex};
    auto& entry = comm->among->shrunk[{without, comm->shrinks[without]++}];
    if (entry == nullptr) entry = std::make_shared<clique>(left);
    among = entry;
  }
  auto const rank = me - static_cast<int>(std::ranges::lower_bound(without, me) - without.begin());
  auto const blocks = config == nullptr ? comm->blocks : config->blocking != 0;
  return start(comm, [=] { (void)join(child, among, rank, blocks); });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = ncclInProgress;
  if (comm->polls > 0) {
    if (--comm->polls != 0) return ncclSuccess;
    for (auto const& work : std::exchange(comm->pending, {})) work();
  }
  auto const lock = std::scoped_lock{comm->among->mutex};
  auto const& among = *comm->among;
  auto const awaits_others =
      among.joined < among.size || among.missing_at_window(comm->rank) >= 0 ||
      (comm->finalizing && (among.finalized < among.size || !comm->graphs->none()));
  auto const error = among.errors[comm->rank];
  if (error != ncclSuccess)
    *state = error;
  else if (!awaits_others)
    *state = ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(ncclComm_t const comm, int* count) {
  *count = static_cast<int>(comm->among->size);
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(ncclComm_t const comm, int* rank) {
  *rank = static_cast<int>(comm->rank);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (!is_ready(comm, "ncclCommFinalize")) return ncclInvalidUsage;
  comm->finalizing = true;
  auto lock = std::unique_lock{comm->among->mutex};
  auto& among = *comm->among;
  ++among.finalized;
  among.changed.notify_all();
  if (!comm->blocks) return ncclInProgress;
  among.changed.wait(lock, [&] { return among.finalized == among.size; });
  lock.unlock();
  comm->graphs->wait_for_none();
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  auto const owned = std::unique_ptr<ncclComm>{comm};
  comm->graphs->wait_for_none();
  auto const lock = std::scoped_lock{comm->among->mutex};
  for (std::size_t to = 0; to < comm->among->size; ++to)
    if (!comm->among->box(comm->rank, to).empty())
      gpu_double::report(text("unmatched: rank ", comm->rank,
                              " is destroyed with messages to rank ", to, " under way"));
  if (!comm->windows.empty())
    gpu_double::report(text("rank ", comm->rank, " is destroyed with a window open"));
  return ncclSuccess;
}
/// Ends what is on streams at once, but comes back only when no graph needs the communicator.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  auto const owned = std::unique_ptr<ncclComm>{comm};
  auto lock = std::unique_lock{comm->among->mutex};
  auto const missing = comm->among->missing_at_window(comm->rank);
  if (missing >= 0)
    gpu_double::report(
        text("unmatched: rank ", comm->rank, " opens a window, rank ", missing, " does not"));
  comm->among->aborted[comm->rank] = true;
  for (std::size_t to = 0; to < comm->among->size; ++to) comm->among->box(comm->rank, to).clear();
  comm->among->changed.notify_all();
  lock.unlock();
  comm->graphs->wait_for_none();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  return --group.depth == 0 ? close_group() : ncclSuccess;
}
ncclResult_t ncclSend(void const* bytes, std::size_t count, ncclDataType_t, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return name(comm, stream,
              {static_cast<std::size_t>(peer), static_cast<std::byte const*>(bytes), nullptr, count,
               false});
}
ncclResult_t ncclRecv(void* bytes, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return name(
      comm, stream,
      {static_cast<std::size_t>(peer), nullptr, static_cast<std::byte*>(bytes), count, false});
}

namespace {

/// A collective, as messages that match only those of the same collective on other ranks.
ncclResult_t start_collective(ncclComm_t comm, cudaStream_t stream, std::vector<message> messages,
                              std::function<void()> before, std::function<void()> after = {}) {
  auto run = group_run{comm->among, comm->rank, std::move(messages)};
  return start(comm, [=] {
    enqueue(comm, stream, [=] {
      if (before) before();
      group_run{run}();
      if (after) after();
    });
  });
}

/// sum += more, of floats or doubles.
template <class T>
void add(std::byte* sum, std::byte const* more, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    reinterpret_cast<T*>(sum)[i] += reinterpret_cast<T const*>(more)[i];
}

[[nodiscard]] std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
      return 8;
    case ncclFloat32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

}  // namespace

ncclResult_t ncclAllGather(void const* mine, void* all, std::size_t count, ncclDataType_t,
                           ncclComm_t comm, cudaStream_t stream) {
  if (!is_ready(comm, "ncclAllGather")) return ncclInvalidUsage;
  ++all_gathers_called;
  auto const* const out = static_cast<std::byte const*>(mine);
  auto* const in = static_cast<std::byte*>(all);
  auto messages = std::vector<message>{};
  for (std::size_t peer = 0; peer < comm->among->size; ++peer) {
    if (peer == comm->rank) continue;
    messages.push_back({peer, out, nullptr, count, true});
    messages.push_back({peer, nullptr, in + peer * count, count, true});
  }
  return start_collective(comm, stream, std::move(messages),
                          [=, rank = comm->rank] { std::memcpy(in + rank * count, out, count); });
}
ncclResult_t ncclBroadcast(void const* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  if (!is_ready(comm, "ncclBroadcast")) return ncclInvalidUsage;
  auto const at_root = static_cast<std::size_t>(root);
  auto const bytes = count * bytes_of(type);
  if (comm->rank != at_root)
    return start_collective(comm, stream,
                            {{at_root, nullptr, static_cast<std::byte*>(to), bytes, true}}, {});
  auto messages = std::vector<message>{};
  for (std::size_t peer = 0; peer < comm->among->size; ++peer)
    if (peer != at_root)
      messages.push_back({peer, static_cast<std::byte const*>(from), nullptr, bytes, true});
  return start_collective(comm, stream, std::move(messages), [=] {
    if (from != to) std::memcpy(to, from, bytes);
  });
}
/// In rank order; sums of floats and doubles only.
ncclResult_t ncclReduce(void const* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  if (!is_ready(comm, "ncclReduce")) return ncclInvalidUsage;
  if (op != ncclSum || (type != ncclFloat32 && type != ncclFloat64)) return ncclInvalidArgument;
  auto const at_root = static_cast<std::size_t>(root);
  auto const bytes = count * bytes_of(type);
  auto const* const mine = static_cast<std::byte const*>(from);
  if (comm->rank != at_root)
    return start_collective(comm, stream, {{at_root, mine, nullptr, bytes, true}}, {});
  auto const ranks = comm->among->size;
  auto const partials = std::make_shared<std::vector<std::byte>>(ranks * bytes);
  auto messages = std::vector<message>{};
  for (std::size_t peer = 0; peer < ranks; ++peer)
    if (peer != at_root)
      messages.push_back({peer, nullptr, partials->data() + peer * bytes, bytes, true});
  return start_collective(
      comm, stream, std::move(messages),
      [=] { std::memcpy(partials->data() + at_root * bytes, mine, bytes); },
      [=] {
        auto* const sum = partials->data();
        for (std::size_t peer = 1; peer < ranks; ++peer)
          (type == ncclFloat32 ? add<float> : add<double>)(sum, sum + peer * bytes, count);
        std::memcpy(to, sum, bytes);
      });
}

namespace {

using handles = std::vector<std::unique_ptr<int>>;

[[nodiscard]] void* added_to(handles& all) {
  return all.emplace_back(std::make_unique<int>()).get();
}
[[nodiscard]] ncclResult_t taken_from(handles& all, void const* handle) {
  auto const taken = std::erase_if(all, [handle](auto const& one) { return one.get() == handle; });
  return taken == 1 ? ncclSuccess : ncclInvalidArgument;
}

/// The next window of a rank is there; those of its peers have to be as large.
void open_window(ncclComm_t comm, std::size_t bytes, ncclWindow_t* window) {
  auto& among = *comm->among;
  auto lock = std::unique_lock{among.mutex};
  auto const number = among.windows[comm->rank].size();
  among.windows[comm->rank].push_back(bytes);
  for (std::size_t peer = 0; peer < among.size; ++peer) {
    auto const& of_peer = among.windows[peer];
    if (of_peer.size() <= number || of_peer[number] == bytes) continue;
    gpu_double::report(text("a window of ", bytes, " bytes on rank ", comm->rank, " meets one of ",
                            of_peer[number], " on rank ", peer));
    for (auto const rank : {comm->rank, peer}) among.errors[rank] = ncclInvalidUsage;
  }
  among.changed.notify_all();
  *window = static_cast<ncclWindow_t>(added_to(comm->windows));
  if (comm->blocks)
    among.changed.wait(lock, [&] { return among.missing_at_window(comm->rank) < 0; });
}

}  // namespace

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  if (cudaMalloc(memory, bytes) != cudaSuccess) return ncclUnhandledCudaError;
  auto const lock = std::scoped_lock{arenas_mutex};
  arenas[static_cast<std::byte const*>(*memory)] = bytes;
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) {
  {
    auto const lock = std::scoped_lock{arenas_mutex};
    arenas.erase(static_cast<std::byte const*>(memory));
  }
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclInvalidArgument;
}

/// What is registered goes with its communicator, unless it is taken back before.
ncclResult_t ncclCommRegister(ncclComm_t const comm, void*, std::size_t, void** handle) {
  if (!is_ready(comm, "ncclCommRegister")) return ncclInvalidUsage;
  *handle = added_to(comm->registrations);
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t const comm, void* handle) {
  return taken_from(comm->registrations, handle);
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t bytes,
                                    ncclWindow_t* window, int) {
  *window = nullptr;
  if (!is_ready(comm, "ncclCommWindowRegister")) return ncclInvalidUsage;
  auto const& as = gpu_double::current();
  if (!as.windows || (as.back_end == gpu_double::mutation::no_window && comm->rank == 0))
    return ncclSuccess;
  if (!is_in_arena(static_cast<std::byte const*>(memory), bytes)) {
    gpu_double::report(text("rank ", comm->rank, " opens a window to memory that is not NCCL's"));
    return ncclInvalidArgument;
  }
  return in_progress_unsaid(comm, [=] { open_window(comm, bytes, window); });
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return taken_from(comm->windows, window);
}
