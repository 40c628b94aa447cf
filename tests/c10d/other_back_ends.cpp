// SPDX-License-Identifier: Apache-2.0
/// Back ends that are not Gloo: whose messages are asked for whether they have come, as MPI's; which
/// end the process where one is dropped before; and which start all messages together, as NCCL does.
#include <algorithm>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "c10d/gloo_group.hpp"
#include "catch.hpp"
#include "contract/communicator_contract.hpp"
#include "fssdp/comm/c10d.hpp"

using c10d_tests::backend_pointer;
using c10d_tests::group_pointer;
using fssdp::c10d_communicator;

namespace {

/// Messages between ranks that are threads.
class post_office {
 public:
  struct address {
    int group;
    int from;
    int to;
    int tag;
    friend auto operator<=>(address const&, address const&) = default;
  };
  void put(address const& of, at::Tensor const& bytes) {
    auto const lock = std::scoped_lock{mutex_};
    auto const* const data = static_cast<std::byte const*>(bytes.data_ptr());
    boxes_[of].emplace_back(data, data + bytes.numel());
  }
  /// Whether there was one.
  [[nodiscard]] bool take(address const& of, at::Tensor const& bytes) {
    auto const lock = std::scoped_lock{mutex_};
    auto& box = boxes_[of];
    if (box.empty()) return false;
    if (box.front().size() != static_cast<std::size_t>(bytes.numel())) std::terminate();
    std::memcpy(bytes.data_ptr(), box.front().data(), box.front().size());
    box.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<address, std::deque<std::vector<std::byte>>> boxes_;
};

/// A message that is to come, or has been sent.
class letter : public c10d::Work {
 public:
  explicit letter(std::function<bool()> arrives) : arrives_{std::move(arrives)} {}
  ~letter() override {
    if (!done_) std::terminate();
  }
  bool isCompleted() override { return done_ = done_ || arrives_(); }
  bool wait(std::chrono::milliseconds) override {
    if (!done_) throw std::logic_error{"nobody has asked whether it has come"};
    return true;
  }
  void abort() override { throw std::logic_error{"it cannot be taken back"}; }

 private:
  std::function<bool()> arrives_;
  bool done_ = false;
};

class post_group : public fssdp::detail::c10d_backend {
 public:
  post_group(int number, int rank, int size, std::shared_ptr<post_office> office)
      : fssdp::detail::c10d_backend{rank, size}, number_{number}, office_{std::move(office)} {}

  const std::string getBackendName() const override { return "mpi"; }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override {
    if (tag > 0x7fff) throw std::logic_error{"a tag that MPI may not have"};
    office_->put({number_, getRank(), to, tag}, tensors.at(0));
    return kept(c10::make_intrusive<letter>([] { return true; }));
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from,
                                      int tag) override {
    auto const at = post_office::address{number_, from, getRank(), tag};
    return kept(c10::make_intrusive<letter>(
        [office = office_, at, bytes = tensors.at(0)] { return office->take(at, bytes); }));
  }

 protected:
  [[nodiscard]] virtual c10::intrusive_ptr<c10d::Work> kept(c10::intrusive_ptr<c10d::Work> work) {
    return work;
  }

 private:
  int number_;
  std::shared_ptr<post_office> office_;
};

/// Takes no message by itself. Torch 1.13 has no such back ends.
template <class Base>
class joined_group : public Base {
 public:
  using Base::Base;
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override {
    if (std::exchange(open_, true)) throw std::logic_error{"begun twice"};
  }
  c10::intrusive_ptr<c10d::Work> endCoalescing() override {
    open_ = false;
    auto all = std::exchange(works_, {});
    return c10::make_intrusive<letter>([all = std::move(all)] {
      return std::ranges::all_of(all, [](auto const& work) { return work->isCompleted(); });
    });
  }

 protected:
  c10::intrusive_ptr<c10d::Work> kept(c10::intrusive_ptr<c10d::Work> work) override {
    if (!open_) throw std::logic_error{"a message by itself"};
    works_.push_back(std::move(work));
    return {};
  }

 private:
  bool open_ = false;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

/// Ranks in threads of their own.
template <class Group>
struct post_ranks {
  using communicator = c10d_communicator;

  static void run(contract::world const& of, contract::work_of<communicator> const& work) {
    auto const office = std::make_shared<post_office>();
    auto thrown = std::vector<std::exception_ptr>(static_cast<std::size_t>(of.ranks));
    auto threads = std::vector<std::thread>{};
    for (int rank = 0; rank < of.ranks; ++rank)
      threads.emplace_back([&, rank] {
        auto groups = 0;
        auto const make = [&] {
          return c10d_tests::group_around(
              backend_pointer{c10::make_intrusive<Group>(groups++, rank, of.ranks, office)}, {});
        };
        try {
          auto comm = c10d_communicator{make(), {.deadline = of.deadline, .make_group = make}};
          work(comm);
        } catch (...) {
          thrown[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
    for (auto& thread : threads) thread.join();
    for (auto const& of_rank : thrown)
      if (of_rank) std::rethrow_exception(of_rank);
  }
};

template <class Backend>
void check_joined() {
  if constexpr (requires(Backend & of) { of.supportsCoalescing(); })
    contract::communicator_contract<post_ranks<joined_group<post_group>>>::check(
        {.instances = 5, .refuses_peers = true});
  else
    skip_test("this torch has no back ends that start messages together");
}

}  // namespace

TEST_CASE("c10d_communicator keeps the contract over a back end that is polled") {
  contract::communicator_contract<post_ranks<post_group>>::check(
      {.instances = 5, .refuses_peers = true});
}

TEST_CASE("c10d_communicator keeps the contract over a back end that starts messages together") {
  check_joined<fssdp::detail::c10d_backend>();
}
