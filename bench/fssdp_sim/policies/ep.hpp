// SPDX-License-Identifier: Apache-2.0
/// Expert parallelism.
#pragma once

#include "../policy.hpp"

namespace sim {

[[nodiscard]] inline layer_answers answers_of_ep(layer_question const& question) {
  return {{*question.owners, fssdp::placement{*question.owners}}};
}

inline constexpr auto ep = policy{.name = "ep",
                                  .about = "experts at their owners, in blocks; nothing moves",
                                  .answers = answers_of_ep};

}  // namespace sim
