// SPDX-License-Identifier: Apache-2.0
/// What a materializer decides by: solvers, predictors, codecs, as values.
#pragma once

#include "fssdp/codec/link_coding.hpp"
#include "fssdp/placement/any_load_predictor.hpp"
#include "fssdp/plan/planner.hpp"
#include "fssdp/solver/any_solver.hpp"

namespace fssdp {

/// All of it has a default: the experts stay with their owners, nothing is coded.
struct materializer_policy {
  /// Who holds which expert of a layer, from the loads that are expected.
  any_placement_solver placement = {};
  /// Who owns which expert after `reshard_every` iterations.
  any_sharding_solver sharding = {};
  /// What the next loads of a layer are expected to be.
  any_load_predictor predictor = {};
  /// How plans are made: on the stream of the communicator, or ahead (materializer_options). A
  /// plan_cache makes equal ones once.
  fssdp::planner planner = make_requested_plan;
  /// What is coded on the wire: parameters one way, gradients the other. Where parameters are,
  /// owners compute with decoded copies, too: all that hold an expert compute with the same bits,
  /// after `calibrate` as well. With link_class::inside_nodes it depends on routes which experts
  /// are coded: if a layer that has been calibrated is gathered again for the backward pass, some
  /// may differ from the forward pass.
  link_coding gather_coding = {};
  link_coding reduce_coding = {};
};

}  // namespace fssdp
