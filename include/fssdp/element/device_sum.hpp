// SPDX-License-Identifier: Apache-2.0
/// A sum that is formed where its operands are: on a device, in the order of a stream.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_lanes.hpp"
#include "fssdp/element/host_device.hpp"
#include "fssdp/element/lane_conversion.hpp"
#include "fssdp/element/payload_code.hpp"
#include "fssdp/element/payload_lanes.hpp"
#include "fssdp/element/rounded.hpp"
#include "fssdp/element/write_mode.hpp"

namespace fssdp {

/// out[i] = scale * (s0[i] + s1[i] + ...), or adds that to out: what `accumulate` does, as a value
/// that is small enough for the arguments of a kernel.
struct device_sum {
  static constexpr std::size_t most_operands = 240;

  /// Elements of the type `partials`, or sums of such: accumulator_t of it; or a payload of either,
  /// which is decoded on the way.
  struct operand {
    void const* data;
    bool is_sum;
    bool is_payload = false;
  };

  dtype partials = dtype::fp32;
  dtype results = dtype::fp32;
  write_mode how = write_mode::overwrite;
  double scale = 1;
  std::size_t elements = 0;
  void* out = nullptr;
  std::size_t count = 0;                   ///< of the operands, 1 or more
  payload_code code = payload_code::int8;  ///< of all payloads
  std::array<operand, most_operands> operands;

  [[nodiscard]] bool decodes() const {
    return std::any_of(operands.data(), operands.data() + count,
                       [](operand const& each) { return each.is_payload; });
  }
};

namespace detail {

/// The sums that a device_sum of partials of type T forms, before they are scaled: in the same
/// order as on the host, N at once where that can be.
/// @tparam Decodes whether there are payloads among the operands: then T is the type of the sums,
///                 and partials are of any type that has such. Codes make kernels long: so there
///                 are few
template <element T, std::size_t N, bool Decodes>
class operand_sums {
 public:
  using sum_type = accumulator_t<T>;
  using sums_type = element_lanes<sum_type, N>;
  static constexpr auto lanes = N;
  /// What a thread holds at once of operands, with their scales and addresses.
  static constexpr auto read_bytes = 6 * wide_bytes;

  explicit operand_sums(device_sum const& of) : sum_{of} {
    for (std::size_t i = 0; i < of.count; ++i)
      wide_ = wide_ &&
              is_wide(of.operands[i].data, of.operands[i].is_payload ? payload_access : wide_bytes);
  }

  /// Whether all operands allow wide accesses.
  [[nodiscard]] bool is_aligned() const { return wide_; }
  [[nodiscard]] FSSDP_HOST_DEVICE std::size_t elements() const { return sum_.elements; }
  [[nodiscard]] FSSDP_HOST_DEVICE device_sum const& about() const { return sum_; }

  /// Those of N elements.
  /// @pre is_aligned(), and N divides `first`
  [[nodiscard]] FSSDP_HOST_DEVICE sums_type all(std::size_t first) const {
    auto sums = sums_type{};
    for (auto& each : sums.at) each = sum_type{-0.0F};  // what is added to it stays as it is
    for (std::size_t s = 0; s < sum_.count;) s += add_next(s, first, sums);
    return sums;
  }
  /// That of one.
  [[nodiscard]] FSSDP_HOST_DEVICE sum_type one(std::size_t i) const {
    auto total = value(sum_.operands[0], i);
    for (std::size_t s = 1; s < sum_.count; ++s) total += value(sum_.operands[s], i);
    return total;
  }

 private:
  /// Reads operands of one type, and adds them.
  template <class Source>
  struct plain {
    using source_lanes = element_lanes<Source, N>;
    using packed = typename source_lanes::packed;
    FSSDP_HOST_DEVICE static packed read(void const* data, std::size_t first) {
      return source_lanes::read(static_cast<Source const*>(data) + first);
    }
    FSSDP_HOST_DEVICE static void add(packed const& read, payload_code, sums_type& sums) {
      auto const values = converted_lanes<sum_type>(source_lanes::of(read));
      for (std::size_t i = 0; i < N; ++i) sums.at[i] += values.at[i];
    }
  };
  /// The same of payloads whose codes have this type.
  template <class Code>
  struct coded {
    using source_lanes = payload_lanes<Code, N>;
    using packed = typename source_lanes::packed;
    FSSDP_HOST_DEVICE static packed read(void const* data, std::size_t first) {
      return source_lanes::read(data, first);
    }
    FSSDP_HOST_DEVICE static void add(packed const& read, payload_code code, sums_type& sums) {
      auto const codes = source_lanes::lanes::of(read.codes);
      with_rule(code, [&]<class Rule>(std::type_identity<Rule>) {
        if constexpr (sizeof(typename payload_layout<Rule>::code_type) == sizeof(Code))
          for (std::size_t i = 0; i < N; ++i)
            sums.at[i] += static_cast<sum_type>(decoded<Rule>(codes.at[i], read.scale));
      });
    }
  };
  /// How many operands a thread reads at once: as many as make four accesses. A device is fast only
  /// if many are under way.
  template <class Reader>
  static constexpr auto at_once = std::max<std::size_t>(4 * wide_bytes /
                                                            sizeof(typename Reader::packed),
                                                        1);

  /// Adds some operands of one kind, from s on.
  /// @returns how many
  FSSDP_HOST_DEVICE std::size_t add_next(std::size_t s, std::size_t first, sums_type& sums) const {
    if constexpr (Decodes) {
      if (sum_.operands[s].is_payload)
        return sum_.code == payload_code::bf16 ? add_some<coded<std::uint16_t>, 4>(s, first, sums)
                                               : add_some<coded<std::uint8_t>, 4>(s, first, sums);
      if (!sum_.operands[s].is_sum) {
        with_partial([&]<class Partial>(std::type_identity<Partial>) {
          add_all<plain<Partial>>(s, first, sums, std::index_sequence<0>{});
        });
        return 1;
      }
    }
    return sum_.operands[s].is_sum
               ? add_some<plain<sum_type>, at_once<plain<sum_type>>>(s, first, sums)
               : add_some<plain<T>, at_once<plain<T>>>(s, first, sums);
  }
  /// Calls visit(std::type_identity<Partial>{}) with the type that partials are of.
  template <class Visit>
  FSSDP_HOST_DEVICE void with_partial(Visit visit) const {
    with_element(sum_.partials, [&]<class Partial>(std::type_identity<Partial> type) {
      if constexpr (std::is_same_v<accumulator_t<Partial>, sum_type>) visit(type);
    });
  }
  /// Adds M operands from s on if they are of one kind, else half as many, and so on.
  /// @returns how many
  template <class Reader, std::size_t M>
  FSSDP_HOST_DEVICE std::size_t add_some(std::size_t s, std::size_t first, sums_type& sums) const {
    if constexpr (M > 1)
      if (!are_alike<M>(s)) return add_some<Reader, M / 2>(s, first, sums);
    add_all<Reader>(s, first, sums, std::make_index_sequence<M>{});
    return M;
  }
  /// Adds those from s on: all are under way before the first is added, and stay in registers.
  template <class Reader, std::size_t... K>
  FSSDP_HOST_DEVICE void add_all(std::size_t s, std::size_t first, sums_type& sums,
                                 std::index_sequence<K...>) const {
    typename Reader::packed const read[] = {Reader::read(sum_.operands[s + K].data, first)...};
    (Reader::add(read[K], sum_.code, sums), ...);
  }
  /// Whether there are M operands from s on, all of one kind.
  template <std::size_t M>
  FSSDP_HOST_DEVICE bool are_alike(std::size_t s) const {
    if (sum_.count - s < M) return false;
    auto alike = true;
    auto const& kind = sum_.operands[s];
    for (std::size_t k = 1; k < M; ++k) {
      if constexpr (Decodes || !std::is_same_v<T, sum_type>)
        alike &= sum_.operands[s + k].is_sum == kind.is_sum;
      if constexpr (Decodes) alike &= sum_.operands[s + k].is_payload == kind.is_payload;
    }
    return alike;
  }

  FSSDP_HOST_DEVICE sum_type value(device_sum::operand const& of, std::size_t i) const {
    if constexpr (Decodes) {
      if (of.is_payload) return static_cast<sum_type>(decoded_at(sum_.code, of.data, i));
      auto result = sum_type{};
      if (!of.is_sum) {
        with_partial([&]<class Partial>(std::type_identity<Partial>) {
          result = static_cast<sum_type>(static_cast<Partial const*>(of.data)[i]);
        });
        return result;
      }
    }
    return of.is_sum ? static_cast<sum_type const*>(of.data)[i]
                     : static_cast<sum_type>(static_cast<T const*>(of.data)[i]);
  }

  device_sum sum_;
  bool wide_ = true;
};

/// One step of a device_sum of partials of type T.
template <element T, element Out, bool Decodes = false>
class sum_kernel {
  using sum_type = accumulator_t<T>;

 public:
  static constexpr auto lanes =
      Decodes ? std::clamp<std::size_t>(lanes_of<T, Out>, 4, 8) : lanes_of<T, Out>;
  /// By a thread in one step: sums, and results.
  static constexpr auto held_bytes = lanes * (sizeof(sum_type) + sizeof(Out));

  explicit sum_kernel(device_sum const& of)
      : sums_{of}, wide_{is_wide(of.out) && sums_.is_aligned()} {}
  /// Whether all addresses allow wide accesses.
  [[nodiscard]] bool is_aligned() const { return wide_; }
  /// How many steps there are.
  [[nodiscard]] std::size_t steps() const { return (sums_.elements() + lanes - 1) / lanes; }

  FSSDP_HOST_DEVICE void operator()(std::size_t step) const {
    auto const first = step * lanes;
    auto const how = sums_.about().how;
    auto* const out = static_cast<Out*>(sums_.about().out);
    if (wide_ && sums_.elements() - first >= lanes) {
      write(how, sums_.all(first), out + first);
    } else {
      for (auto i = first; i < sums_.elements() && i < first + lanes; ++i) {
        auto const sum = scaled(sums_.one(i));
        out[i] = how == write_mode::overwrite ? static_cast<Out>(sum) : added(sum, out[i]);
      }
    }
  }

 private:
  FSSDP_HOST_DEVICE void write(write_mode how, element_lanes<sum_type, lanes> sums,
                               Out* out) const {
    for (auto& each : sums.at) each = scaled(each);
    if (how == write_mode::overwrite) return converted_lanes<Out>(sums).store(out);
    auto results = element_lanes<Out, lanes>{};
    results.load(out);
    for (std::size_t i = 0; i < lanes; ++i) results.at[i] = added(sums.at[i], results.at[i]);
    results.store(out);
  }
  FSSDP_HOST_DEVICE sum_type scaled(sum_type total) const {
    return product(static_cast<sum_type>(sums_.about().scale), total);
  }
  FSSDP_HOST_DEVICE static Out added(sum_type sum, Out before) {
    using wider = std::common_type_t<sum_type, accumulator_t<Out>>;  // what is there may be wider
    return static_cast<Out>(static_cast<wider>(before) + static_cast<wider>(sum));
  }

  operand_sums<T, lanes, Decodes> sums_;
  bool wide_ = false;
};

/// Calls visit(std::type_identity<Sum>{}) with the type in which elements of a dtype are summed.
template <class Visit>
void with_accumulator(dtype of, Visit visit) {
  if (accumulator_of(of) == dtype::fp64)
    visit(std::type_identity<double>{});
  else
    visit(std::type_identity<float>{});
}
/// Calls launch(kernel) with the kernel for the types of a sum.
template <class Launch>
void with_kernel(device_sum const& sum, Launch launch) {
  with_element(sum.results, [&]<class Out>(std::type_identity<Out>) {
    if (sum.decodes())
      with_accumulator(sum.partials, [&]<class Sum>(std::type_identity<Sum>) {
        launch(sum_kernel<Sum, Out, true>{sum});
      });
    else
      with_element(sum.partials,
                   [&]<class T>(std::type_identity<T>) { launch(sum_kernel<T, Out>{sum}); });
  });
}

}  // namespace detail
}  // namespace fssdp
