// SPDX-License-Identifier: Apache-2.0
// What a training loop does not need: the ownership planner, slots of inference engines, uneven
// blocks, advice, verification of plans. A part of compiled.cpp.
#include "fssdp/collective/all_gather_v_inl.hpp"
#include "fssdp/collective/move_slots_inl.hpp"
#include "fssdp/plan/slot_moves_inl.hpp"
#include "fssdp/plan/uneven_plan_inl.hpp"
#include "fssdp/plan/verify_inl.hpp"
#include "fssdp/solver/advise_materialization_inl.hpp"
#include "fssdp/solver/incremental_load_balancer_inl.hpp"
#include "fssdp/solver/ownership_planner_inl.hpp"
