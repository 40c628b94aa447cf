// SPDX-License-Identifier: Apache-2.0
/// All-gather and reduce-scatter of a block of rows from each rank, of any number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/element/runtime_work.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/memory/scratch_memory.hpp"

namespace python {

/// Consecutive blocks of rows, one from each rank.
class row_blocks {
 public:
  /// @param rows of each rank: [ranks]
  /// @param scratch kept between calls
  /// @throws fssdp::argument_error unless `mine` has the rows of this rank and `all` those of all
  row_blocks(std::string_view name, fssdp::rank_id rank, std::vector<std::size_t> rows,
             fssdp::any_tensor mine, fssdp::any_tensor all, fssdp::scratch_memory& scratch)
      : rank_{rank}, mine_{mine}, all_{all}, begin_{0}, scratch_{&scratch} {
    using fssdp::detail::require;
    for (auto const count : rows) begin_.push_back(begin_.back() + count);
    require(mine.elements == all.elements && mine.type == all.type, name, ": rows of ",
            mine.elements, " ", fssdp::name_of(mine.type), ", and of ", all.elements, " ",
            fssdp::name_of(all.type), "; expected the same");
    require(mine.slots == rows[rank.index()], name, ": ", mine.slots, " rows on rank ", rank,
            "; expected ", rows[rank.index()], ", as the counts say");
    require(all.slots == begin_.back(), name, ": ", all.slots, " rows of all ranks; expected ",
            begin_.back());
    for (auto const& [tensor, of] : {std::pair{mine, "this rank"}, std::pair{all, "all ranks"}})
      require(tensor.slots <= 1 || tensor.stride == tensor.elements, name, ": rows of ", of,
              " are not consecutive; expected them to be");
  }

  [[nodiscard]] fssdp::rank_id rank() const { return rank_; }
  [[nodiscard]] fssdp::dtype type() const { return mine_.type; }
  [[nodiscard]] std::size_t elements() const { return mine_.slots * mine_.elements; }
  [[nodiscard]] fssdp::scratch_memory& scratch() const { return *scratch_; }
  /// What ranks have to have in common.
  [[nodiscard]] std::uint64_t hash(std::uint64_t collective) const {
    auto hash = fssdp::detail::hasher{};
    hash.mix(collective);
    for (auto const begin : begin_) hash.mix(begin);
    hash.mix(mine_.elements * fssdp::bytes_of(mine_.type));
    return hash.value();
  }
  [[nodiscard]] std::span<std::byte> mine() const { return bytes(mine_, 0, mine_.slots); }
  [[nodiscard]] std::span<std::byte> of(fssdp::rank_id rank) const {
    auto const first = begin_[rank.index()];
    return bytes(all_, first, begin_[rank.index() + 1] - first);
  }

 private:
  static std::span<std::byte> bytes(fssdp::any_tensor const& tensor, std::size_t first,
                                    std::size_t rows) {
    auto const size = tensor.elements * fssdp::bytes_of(tensor.type);
    return {static_cast<std::byte*>(tensor.data) + first * size, rows * size};
  }

  fssdp::rank_id rank_;
  fssdp::any_tensor mine_;
  fssdp::any_tensor all_;
  std::vector<std::size_t> begin_;
  fssdp::scratch_memory* scratch_;
};

/// Every rank gets the blocks of all.
struct gather_blocks {
  row_blocks blocks;

  template <fssdp::communicator Comm>
  void operator()(Comm& to) const {
    auto const comm = fssdp::communicator_ref{to};
    auto const plan = blocks.hash(0x616c6c67617468);
    comm.agree(plan);
    comm.exchange([&](auto const& batch) {
      batch.label({.plan = plan, .round = 0});
      for (auto const peer : fssdp::first_n<fssdp::rank_id>(comm.size())) {
        if (peer == blocks.rank()) continue;
        if (!blocks.mine().empty()) batch.send(blocks.mine(), peer);
        if (!blocks.of(peer).empty()) batch.recv(blocks.of(peer), peer);
      }
    });
    if (!blocks.mine().empty())
      fssdp::detail::copy_on(comm, blocks.mine(), blocks.of(blocks.rank()));
  }
};

/// The transpose: each rank gets the sum of what all ranks have for its block, in rank order.
struct reduce_blocks {
  row_blocks blocks;

  template <fssdp::communicator Comm>
  void operator()(Comm& to) const {
    using namespace fssdp::detail;
    auto const comm = fssdp::communicator_ref{to};
    auto const ranks = static_cast<std::size_t>(comm.size());
    require(comm.in_host_memory() || ranks <= fssdp::device_sums::most_operands,
            "reduce_scatter_v: ", ranks, " ranks; expected at most ",
            fssdp::device_sums::most_operands, " on devices");
    auto const bytes = blocks.mine().size();
    auto scratch = pass_scratch{comm, &blocks.scratch(), {}};
    auto* const received = scratch.cut(0, bytes * ranks).data;
    auto const from = [&](fssdp::rank_id peer) {
      return std::span{received + peer.index() * bytes, bytes};
    };
    auto const plan = blocks.hash(0x72656475636573);
    comm.agree(plan);
    comm.exchange([&](auto const& batch) {
      batch.label({.plan = plan, .round = 0});
      for (auto const peer : fssdp::first_n<fssdp::rank_id>(comm.size())) {
        if (peer == blocks.rank()) continue;
        if (!blocks.of(peer).empty()) batch.send(blocks.of(peer), peer);
        if (bytes != 0) batch.recv(from(peer), peer);
      }
    });
    auto summands = std::vector<fssdp::summand>{};
    for (auto const peer : fssdp::first_n<fssdp::rank_id>(comm.size()))
      summands.push_back(
          {peer == blocks.rank() ? blocks.of(peer).data() : from(peer).data(), nullptr});
    form_sums(comm, [&](sum_batch& sums) {
      sums.add({runtime_sum_of(blocks.type(), blocks.type())}, summands,
               {blocks.mine().data(), blocks.elements(), fssdp::bytes_of(blocks.type())});
    });
  }
};

}  // namespace python
