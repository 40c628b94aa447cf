// SPDX-License-Identifier: Apache-2.0
/// Mixed integer programs, solved by CBC.
#pragma once

#include <coin/Cbc_C_Interface.h>

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace optimum {

/// Minimizes a sum over variables that are at least 0, under inequalities.
class mixed_integer_program {
 public:
  struct term {
    int variable;
    double factor;
  };
  struct outcome {
    double best = 0;   ///< of what was found
    double bound = 0;  ///< nothing is below it
    std::vector<double> values;  ///< [variables]
  };

  int add_real(double cost = 0) { return add(cost, infinity, false); }
  int add_choice() { return add(0, 1, true); }
  void fix(int variable, double value) { lower_[at(variable)] = upper_[at(variable)] = value; }
  /// sum of terms <= limit
  void at_most(std::vector<term> terms, double limit) { row(std::move(terms), -infinity, limit); }
  void equal(std::vector<term> terms, double value) { row(std::move(terms), value, value); }

  /// @param gap relative; CBC stops when best and bound are as close, or after so many seconds
  [[nodiscard]] outcome solve(double gap, double seconds) const {
    auto* const model = Cbc_newModel();
    auto starts = std::vector<int>(lower_.size() + 1);
    for (auto const& e : entries_) ++starts[at(e.column) + 1];
    for (std::size_t c = 1; c < starts.size(); ++c) starts[c] += starts[c - 1];
    auto next = starts;
    auto rows = std::vector<int>(entries_.size());
    auto values = std::vector<double>(entries_.size());
    for (auto const& e : entries_) {
      auto const to = at(next[at(e.column)]++);
      rows[to] = e.row;
      values[to] = e.value;
    }
    Cbc_loadProblem(model, static_cast<int>(lower_.size()), static_cast<int>(row_lower_.size()),
                    starts.data(), rows.data(), values.data(), lower_.data(), upper_.data(),
                    cost_.data(), row_lower_.data(), row_upper_.data());
    for (auto const variable : integers_) Cbc_setInteger(model, variable);
    Cbc_setLogLevel(model, 0);
    Cbc_setParameter(model, "log", "0");
    Cbc_setAllowableFractionGap(model, gap);
    Cbc_setMaximumSeconds(model, seconds);
    Cbc_solve(model);
    auto const* const found = Cbc_getColSolution(model);
    auto result = outcome{Cbc_getObjValue(model), Cbc_getBestPossibleObjValue(model), {found, found + lower_.size()}};
    Cbc_deleteModel(model);
    return result;
  }

 private:
  struct entry {
    int row;
    int column;
    double value;
  };
  static constexpr auto infinity = std::numeric_limits<double>::max();
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  int add(double cost, double upper, bool integer) {
    cost_.push_back(cost);
    lower_.push_back(0);
    upper_.push_back(upper);
    auto const number = static_cast<int>(cost_.size()) - 1;
    if (integer) integers_.push_back(number);
    return number;
  }
  void row(std::vector<term> terms, double lower, double upper) {
    auto const number = static_cast<int>(row_lower_.size());
    row_lower_.push_back(lower);
    row_upper_.push_back(upper);
    for (auto const& [variable, factor] : terms) entries_.push_back({number, variable, factor});
  }

  std::vector<double> cost_, lower_, upper_;  // [variables]
  std::vector<double> row_lower_, row_upper_;
  std::vector<int> integers_;
  std::vector<entry> entries_;
};

}  // namespace optimum
