// SPDX-License-Identifier: Apache-2.0
/// Where ranks come from: the one place that knows of back ends.
#pragma once

#include <functional>
#include <memory>

#include "options.hpp"
#include "report.hpp"
#include "text.hpp"

namespace moe_gpt {

/// All ranks as threads of this process, or the one that this process is.
class rank_world {
 public:
  rank_world() = default;
  rank_world(rank_world const&) = delete;
  rank_world& operator=(rank_world const&) = delete;
  virtual ~rank_world() = default;

  /// The options, with as many ranks and nodes as there are.
  [[nodiscard]] virtual options const& chosen() const = 0;
  /// Whether rank 0 is here, or after a training the first rank that is left: it reports.
  [[nodiscard]] virtual bool has_rank_0() const = 0;
  /// Trains on all ranks. `observe` is called after every step, by rank 0; when that is lost, by
  /// the first that is left.
  /// @return the report of that rank, where it is
  /// @throws whatever the first rank that failed has thrown; elsewhere what tells of it
  virtual run_record train(corpus const& text,
                           std::function<void(step_record const&)> const& observe) = 0;
};

/// @throws std::invalid_argument if the program was built without the back end, or processes are
///         spread over hosts unevenly
[[nodiscard]] std::unique_ptr<rank_world> join_world(options const& chosen);

/// The processes that mpirun has started.
[[nodiscard]] std::unique_ptr<rank_world> join_processes(options const& chosen);

}  // namespace moe_gpt
