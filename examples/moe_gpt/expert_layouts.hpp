// SPDX-License-Identifier: Apache-2.0
/// Who owns the experts.
#pragma once

#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"

namespace moe_gpt {

/// The layouts of all layers.
using expert_layouts = fssdp::layer_stack<fssdp::table_layout>;

}  // namespace moe_gpt
