// SPDX-License-Identifier: Apache-2.0
#include "compressors.hpp"

#include <nanobind/stl/string.h>

#include <cstddef>
#include <string>

#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/any_compressor.hpp"
#include "fssdp/hybrid/codec_compressor.hpp"
#include "fssdp/hybrid/full_compressor.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "fssdp/hybrid/quantized_compressor.hpp"
#include "fssdp/hybrid/selected_compressor.hpp"
#include "fssdp/hybrid/ternary_compressor.hpp"
#include "fssdp/hybrid/threshold_compressor.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"

namespace python {

namespace nb = nanobind;

namespace {

using fssdp::any_compressor;

any_compressor codec_named(std::string const& codec) {
  if (codec == "bf16") return fssdp::codec_compressor<fssdp::bf16_codec>{};
  if (codec == "int8") return fssdp::codec_compressor<fssdp::int8_codec>{};
  if (codec == "fp8_e4m3") return fssdp::codec_compressor<fssdp::fp8_e4m3_codec>{};
  if (codec == "fp8_e5m2") return fssdp::codec_compressor<fssdp::fp8_e5m2_codec>{};
  throw fssdp::argument_error{fssdp::detail::text(
      "codec_compressor: codec '", codec, "'; expected 'bf16', 'int8', 'fp8_e4m3' or 'fp8_e5m2'")};
}

/// Of all rounds, for a matrix.
std::size_t payload_bytes(any_compressor const& of, std::size_t rows, std::size_t columns) {
  auto bytes = std::size_t{0};
  for (int round = 0; round < of.rounds(); ++round)
    bytes += of.payload_bytes({.rows = rows, .columns = columns}, round);
  return bytes;
}

}  // namespace

void add_compressors(nb::module_& to) {
  using namespace nb::literals;
  nb::class_<any_compressor>(to, "Compressor")
      .def("description", &any_compressor::description)
      .def("payload_bytes", payload_bytes, "rows"_a, "columns"_a,
           "Bytes for a matrix, of all exchanges: exact, or an upper limit.");
  to.def("full_compressor", [] { return any_compressor{fssdp::full_compressor{}}; });
  to.def("codec_compressor", codec_named, "codec"_a);
  to.def(
      "top_dct_compressor",
      [](std::size_t rows, std::size_t columns, std::size_t kept) {
        return any_compressor{
            fssdp::top_dct_compressor{{.rows = rows, .columns = columns, .kept = kept}}};
      },
      "rows"_a, "columns"_a, "kept"_a);
  to.def(
      "strided_compressor",
      [](std::size_t stride) { return any_compressor{fssdp::strided_compressor{stride}}; },
      "stride"_a);
  to.def(
      "random_compressor",
      [](double share) { return any_compressor{fssdp::random_compressor{share}}; }, "share"_a);
  to.def(
      "ternary_compressor",
      [](double clip) { return any_compressor{fssdp::ternary_compressor{.clip = clip}}; },
      "clip"_a);
  to.def(
      "quantized_compressor",
      [](std::size_t bits, std::size_t bucket, bool shifted) {
        using fssdp::quantized_rounding;
        return any_compressor{fssdp::quantized_compressor{
            {.bits = bits,
             .bucket = bucket,
             .rounding = shifted ? quantized_rounding::shifted : quantized_rounding::random}}};
      },
      "bits"_a, "bucket"_a, "shifted"_a);
  to.def(
      "threshold_compressor",
      [](double dropped, float threshold) {
        return any_compressor{
            fssdp::threshold_compressor{.dropped = dropped, .threshold = threshold}};
      },
      "dropped"_a, "threshold"_a);
  to.def(
      "low_rank_compressor",
      [](std::size_t rank, std::size_t least_saving) {
        return any_compressor{
            fssdp::low_rank_compressor{.rank = rank, .least_saving = least_saving}};
      },
      "rank"_a, "least_saving"_a);
}

}  // namespace python
