// SPDX-License-Identifier: Apache-2.0
/// The decisions of a materializer: solvers, predictors, codecs, as values.
#pragma once

#include "fssdp/codec/link_coding.hpp"
#include "fssdp/placement/any_load_predictor.hpp"
#include "fssdp/plan/planner.hpp"
#include "fssdp/solver/any_solver.hpp"

namespace fssdp {

/// Every member has a default: experts stay with their owners, nothing is coded.
struct materializer_policy {
  /// Chooses which ranks hold which experts of a layer, by the expected loads.
  any_placement_solver placement = {};
  /// Chooses new owners, every `reshard_every` iterations.
  any_sharding_solver sharding = {};
  /// Predicts the loads of a layer in the next iteration.
  any_load_predictor predictor = {};
  /// Makes plans: on the stream of the communicator, or ahead (plan_ahead). A plan_cache makes
  /// equal ones once.
  fssdp::planner planner = make_requested_plan;
  /// The codec of parameters and the links where it is used. All ranks that hold a coded expert,
  /// its owner included, compute with the same decoded copy, also after `calibrate`. With
  /// link_class::inside_nodes, routes decide which experts are coded: if a calibrated layer is
  /// gathered again for the backward pass, some experts may differ from those of the forward pass.
  link_coding gather_coding = {};
  link_coding reduce_coding = {};
};

}  // namespace fssdp
