// SPDX-License-Identifier: Apache-2.0
/// All-gather and reduce-scatter of a block of rows from each rank, of any number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/element/runtime_work.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/memory/copy_bytes.hpp"

namespace python {

/// Consecutive blocks of rows, one from each rank.
class row_blocks {
 public:
  /// @param rows of each rank: [ranks]
  /// @throws fssdp::argument_error unless `mine` has the rows of this rank and `all` those of all
  row_blocks(std::string_view name, fssdp::rank_id rank, std::vector<std::size_t> rows,
             fssdp::any_tensor mine, fssdp::any_tensor all)
      : rank_{rank}, mine_{mine}, all_{all}, begin_{0} {
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
};

/// Every rank gets the blocks of all.
struct gather_blocks {
  row_blocks blocks;

  template <fssdp::communicator Comm>
  void operator()(Comm& comm) const {
    comm.exchange([&](auto& batch) {
      fssdp::set_label(batch, {.plan = 0x616c6c67617468, .round = 0});
      for (auto const peer : fssdp::first_n<fssdp::rank_id>(comm.size())) {
        if (peer == blocks.rank()) continue;
        if (!blocks.mine().empty()) batch.send(blocks.mine(), peer);
        if (!blocks.of(peer).empty()) batch.recv(blocks.of(peer), peer);
      }
    });
    fssdp::copy_bytes(blocks.of(blocks.rank()), blocks.mine());
  }
};

/// The transpose: each rank gets the sum of what all ranks have for its block, in rank order.
struct reduce_blocks {
  row_blocks blocks;

  template <fssdp::communicator Comm>
  void operator()(Comm& comm) const {
    auto const bytes = blocks.mine().size();
    auto received = std::vector<std::byte>(bytes * static_cast<std::size_t>(comm.size()));
    auto const from = [&](fssdp::rank_id peer) {
      return std::span{received}.subspan(peer.index() * bytes, bytes);
    };
    comm.exchange([&](auto& batch) {
      fssdp::set_label(batch, {.plan = 0x72656475636573, .round = 0});
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
    auto const sum = fssdp::detail::runtime_sum_of(blocks.type(), blocks.type());
    sum.on_host(sum, summands, blocks.mine().data(), blocks.elements(), 1,
                fssdp::write_mode::overwrite);
  }
};

}  // namespace python
