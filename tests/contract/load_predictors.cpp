// SPDX-License-Identifier: Apache-2.0
/// The contract of a load predictor, for the window and the exponential mean.
#include "contract/load_predictor_contract.hpp"
#include "fssdp/placement/load_average.hpp"
#include "fssdp/placement/load_window.hpp"

namespace {

template <int Length>
struct window_of {
  static fssdp::load_window make(int experts) { return fssdp::load_window{experts, Length}; }
};

template <int Part, int Of>
struct average_with {
  static fssdp::load_average make(int experts) {
    return {experts, {.numerator = Part, .denominator = Of}};
  }
};

}  // namespace

TEMPLATE_TEST_CASE_SIG("load_window keeps the contract", "", ((int Length), Length), 1, 2, 5) {
  contract::load_predictor_contract<window_of<Length>>::check();
}
TEMPLATE_TEST_CASE_SIG("load_average keeps the contract", "", ((int Part, int Of), Part, Of),
                       (1, 1), (2, 5), (1, 65'536), (65'535, 65'536)) {
  contract::load_predictor_contract<average_with<Part, Of>>::check();
}
