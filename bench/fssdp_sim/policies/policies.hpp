// SPDX-License-Identifier: Apache-2.0
/// All policies, in the order in which they are shown.
#pragma once

#include <array>

#include "ep.hpp"
#include "eplb.hpp"
#include "fastermoe.hpp"
#include "flexmoe.hpp"
#include "fsdp.hpp"
#include "fsep.hpp"
#include "hecate.hpp"
#include "ours.hpp"
#include "smartmoe.hpp"

namespace sim {

inline constexpr auto policies = std::array{ep,
                                            fsdp,
                                            fastermoe,
                                            smartmoe,
                                            flexmoe,
                                            eplb,
                                            fsep,
                                            hecate,
                                            hecate_no_sharding,
                                            hecate_no_materialization,
                                            hecate_calibrated,
                                            hecate_rm,
                                            ours};

}  // namespace sim
