// SPDX-License-Identifier: Apache-2.0
/// Sums on a device, in the order of a stream.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_lanes.hpp"
#include "fssdp/element/host_device.hpp"
#include "fssdp/element/lane_conversion.hpp"
#include "fssdp/element/part_of.hpp"
#include "fssdp/element/payload_code.hpp"
#include "fssdp/element/payload_lanes.hpp"
#include "fssdp/element/rounded.hpp"
#include "fssdp/element/write_mode.hpp"

namespace fssdp {

/// Sums to be formed in one launch: out[i] = scale * (s0[i] + s1[i] + ...), or adds that to out,
/// each with its own operands, as `accumulate`. Small enough for the arguments of a kernel. None of
/// them may read or write what another one writes.
struct device_sums {
  static constexpr std::size_t most = 32;
  static constexpr std::size_t most_operands = 240;  // of all sums together

  /// The kind of an operand: elements of the type `partials`; sums of such, in accumulator_t of it;
  /// or a payload of either, which is decoded by the kernel.
  enum class kind : std::uint8_t { partial, sum, payload };
  struct operand {
    void const* data = nullptr;
    kind is = kind::partial;
  };
  struct sum {
    void* out;
    std::size_t elements;
    std::uint32_t first;     ///< index of the first operand
    std::uint32_t operands;  ///< their number, 1 or more
  };

  dtype partials = dtype::fp32;
  dtype results = dtype::fp32;
  write_mode how = write_mode::overwrite;
  double scale = 1;
  payload_code code = payload_code::int8;  ///< of all payloads
  std::size_t count = 0;
  std::size_t operand_count = 0;
  std::array<sum, most> sums;
  std::array<void const*, most_operands> operands;
  std::array<kind, most_operands> kinds;

  /// Begins another sum; its operands follow.
  /// @pre has_room_for them
  void begin(void* out, std::size_t elements) {
    sums[count++] = {out, elements, static_cast<std::uint32_t>(operand_count), 0};
  }
  void add(operand const& of) {
    operands[operand_count] = of.data;
    kinds[operand_count++] = of.is;
    ++sums[count - 1].operands;
  }
  void clear() { count = operand_count = 0; }

  /// Whether there is room for one or more further sums with this many operands.
  [[nodiscard]] bool has_room_for(std::size_t more_operands, std::size_t more_sums = 1) const {
    return count + more_sums <= most && operand_count + more_operands <= most_operands;
  }
  /// Whether other sums can be formed in the same launch: they have the same types and options.
  [[nodiscard]] bool is_like(device_sums const& other) const {
    return partials == other.partials && results == other.results && how == other.how &&
           scale == other.scale && code == other.code;
  }
  /// Appends the sums of another list.
  /// @pre is_like(other), and there is room
  void append(device_sums const& other) {
    for (auto const& each : std::span{other.sums}.first(other.count)) {
      begin(each.out, each.elements);
      for (auto i = each.first; i < each.first + each.operands; ++i)
        add({other.operands[i], other.kinds[i]});
    }
  }
  [[nodiscard]] bool decodes() const {
    return std::find(kinds.data(), kinds.data() + operand_count, kind::payload) !=
           kinds.data() + operand_count;
  }
};

namespace detail {

/// The unscaled sums of device_sums with partials of type T: in the same order as on the host, N at
/// a time where possible.
/// @tparam Decodes whether payloads may be among the operands: then T is the type of the sums, and
///                 partials are of any type with that accumulator. Decoding makes kernels long, so
///                 there are few of these
template <element T, std::size_t N, bool Decodes>
class operand_sums {
  using kind = device_sums::kind;

 public:
  using sum_type = accumulator_t<T>;
  using sums_type = element_lanes<sum_type, N>;
  static constexpr auto lanes = N;
  /// The bytes of operands that a thread holds at a time, with their scales and addresses.
  static constexpr auto read_bytes = 6 * wide_bytes;

  explicit operand_sums(device_sums const& of) : of_{of} {}

  /// Whether all operands of a sum allow wide accesses.
  [[nodiscard]] bool is_aligned(std::size_t sum) const {
    auto const& each = of_.sums[sum];
    for (auto s = each.first; s < each.first + each.operands; ++s)
      if (!is_wide(of_.operands[s], of_.kinds[s] == kind::payload ? payload_access : wide_bytes))
        return false;
    return true;
  }
  [[nodiscard]] FSSDP_HOST_DEVICE device_sums const& about() const { return of_; }

  /// N elements of a sum.
  /// @pre is_aligned(sum), and N divides `first`
  [[nodiscard]] FSSDP_HOST_DEVICE sums_type all(device_sums::sum const& sum,
                                                std::size_t first) const {
    auto sums = sums_type{};
    for (auto& each : sums.at) each = sum_type{-0.0F};  // x + -0 is x for all x
    auto const end = sum.first + sum.operands;
    for (auto s = sum.first; s < end;) s += add_next(s, end, first, sums);
    return sums;
  }
  /// One element of a sum.
  [[nodiscard]] FSSDP_HOST_DEVICE sum_type one(device_sums::sum const& sum, std::size_t i) const {
    auto total = value(sum.first, i);
    for (auto s = sum.first + 1; s < sum.first + sum.operands; ++s) total += value(s, i);
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
      auto const values = unpacked<sum_type, source_lanes>(read);
      for (std::size_t i = 0; i < N; ++i) sums.at[i] += values.at[i];
    }
  };
  /// The same for payloads whose codes have this type.
  template <class Code>
  struct coded {
    using source_lanes = payload_lanes<Code, N>;
    using packed = typename source_lanes::packed;
    FSSDP_HOST_DEVICE static packed read(void const* data, std::size_t first) {
      return source_lanes::read(data, first);
    }
    FSSDP_HOST_DEVICE static void add(packed const& read, payload_code code, sums_type& sums) {
      with_rule(code, [&]<class Rule>(std::type_identity<Rule>) {
        if constexpr (sizeof(typename payload_layout<Rule>::code_type) == sizeof(Code)) {
          auto const values = decoded_lanes<Rule, typename source_lanes::lanes>(read);
          for (std::size_t i = 0; i < N; ++i) sums.at[i] += static_cast<sum_type>(values.at[i]);
        }
      });
    }
  };
  /// How many operands a thread reads together: those of four accesses. Devices need many accesses
  /// in flight.
  template <class Reader>
  static constexpr auto at_once = std::max<std::size_t>(4 * wide_bytes /
                                                            sizeof(typename Reader::packed),
                                                        1);

  /// Adds some operands of one kind, beginning with s.
  /// @returns their number
  FSSDP_HOST_DEVICE std::uint32_t add_next(std::uint32_t s, std::uint32_t end, std::size_t first,
                                           sums_type& sums) const {
    if constexpr (Decodes) {
      if (of_.kinds[s] == kind::payload)
        return of_.code == payload_code::bf16
                   ? add_some<coded<std::uint16_t>, 4>(s, end, first, sums)
                   : add_some<coded<std::uint8_t>, 4>(s, end, first, sums);
      if (of_.kinds[s] == kind::partial) {
        with_partial([&]<class Partial>(std::type_identity<Partial>) {
          add_all<plain<Partial>>(s, first, sums, std::index_sequence<0>{});
        });
        return 1;
      }
    }
    return of_.kinds[s] == kind::sum
               ? add_some<plain<sum_type>, at_once<plain<sum_type>>>(s, end, first, sums)
               : add_some<plain<T>, at_once<plain<T>>>(s, end, first, sums);
  }
  /// Calls visit(std::type_identity<Partial>{}) with the type of the partials.
  template <class Visit>
  FSSDP_HOST_DEVICE void with_partial(Visit visit) const {
    with_element(of_.partials, [&]<class Partial>(std::type_identity<Partial> type) {
      if constexpr (std::is_same_v<accumulator_t<Partial>, sum_type>) visit(type);
    });
  }
  /// Adds M operands, beginning with s, if they are of one kind, otherwise half as many, and so on.
  /// @returns their number
  template <class Reader, std::uint32_t M>
  FSSDP_HOST_DEVICE std::uint32_t add_some(std::uint32_t s, std::uint32_t end, std::size_t first,
                                           sums_type& sums) const {
    if constexpr (M > 1)
      if (!are_alike<M>(s, end)) return add_some<Reader, M / 2>(s, end, first, sums);
    add_all<Reader>(s, first, sums, std::make_index_sequence<M>{});
    return M;
  }
  /// Adds these operands: all reads are in flight before the first addition, and stay in registers.
  template <class Reader, std::size_t... K>
  FSSDP_HOST_DEVICE void add_all(std::uint32_t s, std::size_t first, sums_type& sums,
                                 std::index_sequence<K...>) const {
    typename Reader::packed const read[] = {Reader::read(of_.operands[s + K], first)...};
    (Reader::add(read[K], of_.code, sums), ...);
  }
  /// Whether there are M operands, beginning with s, all of one kind.
  template <std::uint32_t M>
  FSSDP_HOST_DEVICE bool are_alike(std::uint32_t s, std::uint32_t end) const {
    if (end - s < M) return false;
    auto alike = true;
    if constexpr (Decodes || !std::is_same_v<T, sum_type>)
      for (std::uint32_t k = 1; k < M; ++k) alike &= of_.kinds[s + k] == of_.kinds[s];
    return alike;
  }

  FSSDP_HOST_DEVICE sum_type value(std::uint32_t s, std::size_t i) const {
    auto const* const data = of_.operands[s];
    if constexpr (Decodes) {
      if (of_.kinds[s] == kind::payload)
        return static_cast<sum_type>(decoded_at(of_.code, data, i));
      auto result = sum_type{};
      if (of_.kinds[s] == kind::partial) {
        with_partial([&]<class Partial>(std::type_identity<Partial>) {
          result = static_cast<sum_type>(static_cast<Partial const*>(data)[i]);
        });
        return result;
      }
    }
    return of_.kinds[s] == kind::sum ? static_cast<sum_type const*>(data)[i]
                                     : static_cast<sum_type>(static_cast<T const*>(data)[i]);
  }

  device_sums of_;
};

/// The steps of device_sums of partials of type T, one sum after the other.
template <element T, element Out, bool Decodes = false>
class sum_kernel {
  using sum_type = accumulator_t<T>;

 public:
  static constexpr auto lanes = Decodes ? std::size_t{8} : lanes_of<T, Out>;
  /// The bytes that a thread holds in one step: sums and results.
  static constexpr auto held_bytes = lanes * (sizeof(sum_type) + sizeof(Out));

  explicit sum_kernel(device_sums const& of) : sums_{of} {
    first_step_[0] = 0;
    for (std::size_t i = 0; i < of.count; ++i) {
      first_step_[i + 1] = first_step_[i] + (of.sums[i].elements + lanes - 1) / lanes;
      wide_[i] = is_wide(of.sums[i].out) && sums_.is_aligned(i);
    }
  }
  /// Whether all addresses allow wide accesses.
  [[nodiscard]] bool is_aligned() const {
    return std::all_of(wide_.data(), wide_.data() + sums_.about().count,
                       [](bool each) { return each; });
  }
  /// The number of steps.
  [[nodiscard]] std::size_t steps() const { return first_step_[sums_.about().count]; }

  FSSDP_HOST_DEVICE void operator()(std::size_t step) const {
    auto const i = part_of(first_step_.data(), sums_.about().count, step);
    auto const& sum = sums_.about().sums[i];
    auto const first = (step - first_step_[i]) * lanes;
    auto const how = sums_.about().how;
    auto* const out = static_cast<Out*>(sum.out);
    if (wide_[i] && sum.elements - first >= lanes) {
      write(how, sums_.all(sum, first), out + first);
    } else {
      for (auto at = first; at < sum.elements && at < first + lanes; ++at) {
        auto const total = scaled(sums_.one(sum, at));
        out[at] = how == write_mode::overwrite ? static_cast<Out>(total) : added(total, out[at]);
      }
    }
  }

 private:
  FSSDP_HOST_DEVICE void write(write_mode how, element_lanes<sum_type, lanes> sums,
                               Out* out) const {
    for (auto& each : sums.at) each = scaled(each);
    using out_lanes = element_lanes<Out, lanes>;
    if (how == write_mode::overwrite) return out_lanes::write(packed_as<out_lanes>(sums), out);
    auto results = out_lanes{};
    results.load(out);
    for (std::size_t i = 0; i < lanes; ++i) results.at[i] = added(sums.at[i], results.at[i]);
    results.store(out);
  }
  FSSDP_HOST_DEVICE sum_type scaled(sum_type total) const {
    return product(static_cast<sum_type>(sums_.about().scale), total);
  }
  FSSDP_HOST_DEVICE static Out added(sum_type sum, Out before) {
    using wider = std::common_type_t<sum_type, accumulator_t<Out>>;  // the output may be wider
    return static_cast<Out>(static_cast<wider>(before) + static_cast<wider>(sum));
  }

  operand_sums<T, lanes, Decodes> sums_;
  std::array<std::size_t, device_sums::most + 1> first_step_;  // of each sum, and the end
  std::array<bool, device_sums::most> wide_;  // [sums]: whether addresses allow wide accesses
};

/// Calls visit(std::type_identity<Sum>{}) with the type in which elements of a dtype are summed.
template <class Visit>
void with_accumulator(dtype of, Visit visit) {
  if (accumulator_of(of) == dtype::fp64)
    visit(std::type_identity<double>{});
  else
    visit(std::type_identity<float>{});
}
/// Calls launch(kernel) with the kernel for the types of the sums.
template <class Launch>
void with_kernel(device_sums const& sums, Launch launch) {
  with_element(sums.results, [&]<class Out>(std::type_identity<Out>) {
    if (sums.decodes())
      with_accumulator(sums.partials, [&]<class Sum>(std::type_identity<Sum>) {
        launch(sum_kernel<Sum, Out, true>{sums});
      });
    else
      with_element(sums.partials,
                   [&]<class T>(std::type_identity<T>) { launch(sum_kernel<T, Out>{sums}); });
  });
}

}  // namespace detail
}  // namespace fssdp
