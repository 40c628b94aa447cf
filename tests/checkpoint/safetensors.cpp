// SPDX-License-Identifier: Apache-2.0
/// Files follow the public format; other files are refused.
#include "fssdp/checkpoint/safetensors_file.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/checkpoint/write_rank_file.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "support/stored_instance.hpp"
#include "support/temporary_folder.hpp"

namespace {

/// A file as its header would have it, with so many bytes after.
[[nodiscard]] std::string file_with(std::string const& json, std::size_t data_bytes = 0) {
  return fssdp::detail::little_endian(json.size()) + json + std::string(data_bytes, 'x');
}
[[nodiscard]] std::string refusal_of(std::string const& bytes) {
  auto const folder = support::temporary_folder{};
  auto const path = folder.path() / "hostile.safetensors";
  support::write_bytes(path, bytes);
  try {
    (void)fssdp::safetensors_file{path};
  } catch (fssdp::file_error const& error) {
    auto const text = std::string{error.what()};
    return text.starts_with(path.string() + ": ") ? text : "without the file's name: " + text;
  }
  return "accepted";
}
/// One tensor of 8 bytes that is as it should be but for what is put in.
[[nodiscard]] std::string tensor(std::string const& name, std::string const& dtype,
                                 std::string const& shape, std::string const& offsets) {
  return '"' + name + R"(":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" +
         offsets + '}';
}

/// What the format's description says, read by a reader that shares nothing with the library's:
/// 8 bytes of length, an object of tensors, and their bytes without gaps.
struct plain_reader {
  struct entry {
    std::string dtype;
    std::vector<std::size_t> shape;
    std::string bytes;
  };
  std::map<std::string, entry> tensors;

  explicit plain_reader(std::string const& file) {
    auto length = std::uint64_t{0};
    std::memcpy(&length, file.data(), 8);
    REQUIRE(length + 8 <= file.size());
    json_ = file.substr(8, length);
    auto const data = file.substr(8 + length);
    auto covered = std::size_t{0};
    expect('{');
    while (peek() != '}') {
      auto const name = text();
      expect(':');
      expect('{');
      auto found = entry{};
      auto begin = std::size_t{0};
      auto end = std::size_t{0};
      while (peek() != '}') {
        auto const key = text();
        expect(':');
        if (name == "__metadata__") {
          (void)text();
        } else if (key == "dtype") {
          found.dtype = text();
        } else {
          auto const numbers = list();
          if (key == "shape") {
            found.shape = numbers;
          } else {
            REQUIRE(key == "data_offsets");
            begin = numbers.at(0);
            end = numbers.at(1);
          }
        }
        if (peek() == ',') expect(',');
      }
      expect('}');
      if (name != "__metadata__") {
        REQUIRE(end <= data.size());
        covered += end - begin;
        found.bytes = data.substr(begin, end - begin);
        REQUIRE(tensors.emplace(name, found).second);
      }
      if (peek() == ',') expect(',');
    }
    expect('}');
    for (; at_ < json_.size(); ++at_) REQUIRE(json_[at_] == ' ');
    REQUIRE(covered == data.size());
  }

 private:
  [[nodiscard]] char peek() const { return json_.at(at_); }
  void expect(char c) { REQUIRE(json_.at(at_++) == c); }
  [[nodiscard]] std::string text() {
    expect('"');
    auto const end = json_.find('"', at_);
    auto const found = json_.substr(at_, end - at_);
    REQUIRE(found.find('\\') == found.npos);
    at_ = end + 1;
    return found;
  }
  [[nodiscard]] std::vector<std::size_t> list() {
    auto numbers = std::vector<std::size_t>{};
    expect('[');
    while (peek() != ']') {
      auto digits = std::string{};
      while (std::isdigit(static_cast<unsigned char>(peek())) != 0) digits += json_[at_++];
      numbers.push_back(std::stoull(digits));
      if (peek() == ',') expect(',');
    }
    expect(']');
    return numbers;
  }

  std::string json_;
  std::size_t at_ = 0;
};

}  // namespace

TEST_CASE("a rank's file is what a plain reader of the format expects") {
  auto const folder = support::temporary_folder{};
  auto const model = support::stored_model{3, {{"w1", {4, 5}}, {"b1", {7}}}};
  auto const layout = support::reversed_layout{1, std::vector(3, fssdp::rank_id{0}), 1};
  auto const weights = support::filled_shard<float>(model, layout, fssdp::rank_id{0}, 0);
  auto const moments = support::filled_shard<fssdp::bf16>(model, layout, fssdp::rank_id{0}, 1);
  auto part = fssdp::saved_part{"experts", layout, fssdp::rank_id{0}, model.tensors};
  part.add("moment1", moments).add("weight", weights);
  auto const path = folder.path() / "rank.safetensors";
  auto file = fssdp::detail::new_file{path};
  auto const made = fssdp::detail::write_rank_file(file, std::span{&part, 1});

  auto const bytes = support::bytes_of_file(path);
  REQUIRE(bytes.size() == made.bytes);
  auto const plain = plain_reader{bytes};
  REQUIRE(plain.tensors.size() == 3 * 2 * 2);
  for (int e = 0; e < 3; ++e)
    for (std::size_t k = 0; k < 2; ++k) {
      auto const expert = fssdp::expert_id{e};
      auto const name = "experts." + std::to_string(e) + (k == 0 ? ".w1" : ".b1");
      auto const& weight = plain.tensors.at(name + ".weight");
      auto const elements = model.tensors[k].elements();
      REQUIRE(weight.dtype == "F32");
      REQUIRE(weight.shape == std::vector<std::size_t>(model.tensors[k].shape.begin(),
                                                       model.tensors[k].shape.end()));
      REQUIRE(weight.bytes.size() == 4 * elements);
      auto const& moment = plain.tensors.at(name + ".moment1");
      REQUIRE(moment.dtype == "BF16");
      REQUIRE(moment.bytes.size() == 2 * elements);
      for (std::size_t i = 0; i < elements; ++i) {
        auto single = 0.0F;
        std::memcpy(&single, weight.bytes.data() + 4 * i, 4);
        REQUIRE(single == support::number_of<float>(0, expert, k, i));
        auto upper = std::uint16_t{0};
        std::memcpy(&upper, moment.bytes.data() + 2 * i, 2);
        REQUIRE(upper == support::number_of<fssdp::bf16>(1, expert, k, i).bits());
      }
    }
  auto length = std::uint64_t{0};
  std::memcpy(&length, bytes.data(), 8);
  REQUIRE((length + 8) % 64 == 0);  // tensors begin at a multiple of their elements' size
}

TEST_CASE("a file of another writer is read") {
  auto const folder = support::temporary_folder{};
  auto const path = folder.path() / "other.safetensors";
  auto const json = std::string{R"( {"b" : {"shape": [], "data_offsets":[8,12],"dtype":"F32"},)"} +
                    R"( "empty":{"dtype":"I64","shape":[3,0],"data_offsets":[8,8]},)" +
                    R"("__metadata__":{"format":"pt"},)" +
                    tensor("a", R"("F16")", "[2,2]", "[0,8]") + "}   ";
  support::write_bytes(path, file_with(json.substr(1), 12));
  auto const file = fssdp::safetensors_file{path};
  REQUIRE(file.header().tensors().size() == 3);
  REQUIRE(file.header().metadata().at("format") == "pt");
  auto const b = file.header().find("b");
  REQUIRE(b.has_value());
  REQUIRE(file.header().tensors()[*b].bytes == 4);  // a single number
  REQUIRE(file.header().tensors()[*file.header().find("empty")].bytes == 0);
  REQUIRE(!file.header().find("c").has_value());
  auto const again = fssdp::parse_safetensors(fssdp::to_text(file.header()).substr(8), 12);
  REQUIRE(again.tensors() == file.header().tensors());
  REQUIRE(again.metadata() == file.header().metadata());
}

TEST_CASE("hostile headers are refused with the file and the cause") {
  auto const f32 = std::string{R"("F32")"};
  auto const good = tensor("a", f32, "[2]", "[0,8]");
  REQUIRE(refusal_of(file_with('{' + good + '}', 8)) == "accepted");
  struct hostile {
    std::string bytes;
    char const* cause;
  };
  auto const deep = std::string(200'000, '[');
  auto const wide = [] {
    auto shape = std::string{"[1"};
    for (int i = 0; i < 100'000; ++i) shape += ",4294967296";
    return shape + ']';
  }();
  auto const cases = std::vector<hostile>{
      {"", "has 0 bytes; expected 8 or more"},
      {std::string(7, '\0'), "has 7 bytes"},
      {std::string(8, '\xff'), "header of 18446744073709551615 bytes; expected at most 100000000"},
      {fssdp::detail::little_endian(100'000'001), "expected at most 100000000"},
      {fssdp::detail::little_endian(100) + "{}", "header of 100 bytes in 10; it is cut off"},
      {fssdp::detail::little_endian(0), "does not begin with '{'"},
      {file_with(" {}"), "does not begin with '{'"},
      {file_with("[]"), "does not begin with '{'"},
      {file_with("{"), "not JSON from byte"},
      {file_with("{}{}"), "not JSON from byte"},
      {file_with(std::string{"{}\0x", 4}), "zero byte"},
      {file_with(R"({"a":"\xff"})"), "not JSON"},
      {file_with("{}", 1), "its tensors end at byte 0; expected 1"},
      {file_with(R"({"a":[]})"), "'a' is an array; expected the object of a tensor"},
      {file_with(R"({"a":)" + deep), "'a' is an array"},
      {file_with('{' + tensor("a", f32, deep, "[0,8]")), "has an array in 'shape'"},
      {file_with(R"({"a":{"dtype":{"x":)" + deep), "has an object in 'dtype'"},
      {file_with(R"({"__metadata__":{"x":)" + deep), "expected a string"},
      {file_with(R"({"__metadata__":{"x":1}})"), "'__metadata__' has a number for 'x'"},
      {file_with(R"({"__metadata__":{"x":"1","x":"2"}})"), "has 'x' twice"},
      {file_with(R"({"__metadata__":{},"__metadata__":{}})"), "'__metadata__' is there twice"},
      {file_with('{' + good + ',' + good + '}', 8), "tensor 'a' "},
      {file_with('{' + tensor("a", f32, "[0]", "[0,0]") + ',' + tensor("a", f32, "[0]", "[0,0]") +
                 '}'),
       "two tensors have the name 'a'"},
      {file_with('{' + tensor("a", R"("F31")", "[2]", "[0,8]") + '}', 8), "unknown type 'F31'"},
      {file_with('{' + tensor("a", "32", "[2]", "[0,8]") + '}', 8), "has a number in 'dtype'"},
      {file_with('{' + tensor("a", f32, "[-2]", "[0,8]") + '}', 8), "a negative number in 'shape'"},
      {file_with('{' + tensor("a", f32, "[2.0]", "[0,8]") + '}', 8), "a fraction"},
      {file_with('{' + tensor("a", f32, "[18446744073709551616]", "[0,8]") + '}', 8), "64 bits"},
      {file_with('{' + tensor("a", f32, "2", "[0,8]") + '}', 8), "has a number in 'shape'"},
      {file_with('{' + tensor("a", f32, "[3]", "[0,8]") + '}', 8), "8 bytes; expected 12"},
      {file_with('{' + tensor("a", f32, "[4294967296,4294967296,1]", "[0,8]") + '}', 8),
       "too many elements"},
      {file_with('{' + tensor("a", f32, "[9223372036854775807]", "[0,8]") + '}', 8),
       "too many elements"},
      {file_with('{' + tensor("a", f32, wide, "[0,8]") + '}', 8), "too many elements"},
      {file_with('{' + tensor("a", f32, "[2]", "[0]") + '}', 8), "1 data_offsets; expected 2"},
      {file_with('{' + tensor("a", f32, "[2]", "[0,8,8]") + '}', 8), "over 2 data_offsets"},
      {file_with('{' + tensor("a", f32, "[2]", "[8,0]") + '}', 8), "before it begins"},
      {file_with('{' + tensor("a", f32, "[2]", "[0,9]") + '}', 9), "9 bytes; expected 8"},
      {file_with('{' + tensor("a", f32, "[2]", "[0,8]") + '}', 4), "ends at byte 8 of 4"},
      {file_with('{' + tensor("a", f32, "[2]", "[0,8]") + '}', 9), "end at byte 8; expected 9"},
      {file_with('{' + tensor("a", f32, "[2]", "[1,9]") + '}', 9), "begins at byte 1; expected 0"},
      {file_with('{' + good + ',' + tensor("b", f32, "[2]", "[4,12]") + '}', 12),
       "'b' begins at byte 4; expected 8"},
      {file_with('{' + good + ',' + tensor("b", f32, "[2]", "[12,20]") + '}', 20),
       "'b' begins at byte 12; expected 8"},
      {file_with('{' + tensor("a", f32, "[2]", "[18446744073709551608,18446744073709551615]") + '}',
                 8),
       "ends at byte 18446744073709551615 of 8"},
      {file_with(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "lacks a field"},
      {file_with(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
       "has 'dtype' twice"},
      {file_with(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8),
       "has a field 'x'"},
      {file_with(R"({"__metadata__":{"fssdp.block_bytes":"0","fssdp.xxh3":""}})"),
       "fssdp.block_bytes is '0'"},
      {file_with(R"({"__metadata__":{"fssdp.block_bytes":"5000","fssdp.xxh3":""}})"), "is '5000'"},
      {file_with(R"({"__metadata__":{"fssdp.block_bytes":"1099511627776","fssdp.xxh3":""}})"),
       "a power of two"},
      {file_with(R"({"__metadata__":{"fssdp.block_bytes":"4096","fssdp.xxh3":"00"}})"),
       "2 digits of checksums; expected 16 for each of its 0 blocks"},
      {file_with(
           R"({"__metadata__":{"fssdp.block_bytes":"4096","fssdp.xxh3":"000000000000000g"},)" +
               good + '}',
           8),
       "a checksum that is not a number"},
  };
  for (auto const& [bytes, cause] : cases) {
    CAPTURE(bytes.substr(0, 200), cause);
    auto const text = refusal_of(bytes);
    REQUIRE_THAT(text, mentions(cause));
    REQUIRE_THAT(text, !mentions("without the file's name"));
  }
}

TEST_CASE("a file that is not regular is refused, and opening it does not block") {
  auto const folder = support::temporary_folder{};
  auto const refusal = [](std::filesystem::path const& path) -> std::string {
    try {
      (void)fssdp::safetensors_file{path};
    } catch (fssdp::file_error const& error) {
      return error.what();
    }
    return "accepted";
  };
  REQUIRE_THAT(refusal(folder.path() / "none"), mentions("none: cannot open: No such file"));
  REQUIRE_THAT(refusal(folder.path()), mentions("is not a regular file"));
  auto const pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE_THAT(refusal(pipe), mentions("pipe: is not a regular file"));
}

TEST_CASE("parts of tensors are read in any type, across blocks") {
  auto const folder = support::temporary_folder{};
  auto const path = folder.path() / "blocks.safetensors";
  auto const elements = std::size_t{600'000};  // 2.3 blocks of floats
  auto const layout = fssdp::block_layout{{.experts = 1, .ranks = 1}};
  auto weights = fssdp::make_shard<float>(layout, fssdp::rank_id{0}, elements);
  auto const numbers = weights.tensors()[0][0];
  for (std::size_t i = 0; i < elements; ++i) numbers[i] = static_cast<float>(i % 251);
  auto part = fssdp::saved_part{"one", layout, fssdp::rank_id{0}, {{"w", {elements}}}};
  part.add("weight", weights);
  auto written = fssdp::detail::new_file{path};
  (void)fssdp::detail::write_rank_file(written, std::span{&part, 1});
  auto const file = fssdp::safetensors_file{path};
  auto scratch = fssdp::scratch_memory{};
  auto const check = [&](auto type, std::size_t first, std::size_t count) {
    using T = decltype(type);
    auto to = std::vector<T>(count);
    file.read(0, first, fssdp::file_dtype_of<T>, std::as_writable_bytes(std::span{to}), scratch);
    auto wrong = 0;
    for (std::size_t i = 0; i < count; ++i)
      wrong += static_cast<float>(to[i]) == static_cast<float>((first + i) % 251) ? 0 : 1;
    CAPTURE(first, count, sizeof(T));
    REQUIRE(wrong == 0);
  };
  auto const block = std::size_t{262'144};
  for (auto const first : {std::size_t{0}, std::size_t{1}, block - 1, block, block + 1, 2 * block})
    for (auto const count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, elements - first}) {
      check(float{}, first, count);
      check(double{}, first, count);
      check(fssdp::bf16{}, first, count);
      check(fssdp::fp16{}, first, count);
    }
}

TEST_CASE(
    "types of files that have an element type are visited as it, all others are errors that name "
    "them") {
  auto visited = 0;
  for (auto const& entry : fssdp::detail::file_dtypes) {
    auto const visit = [&] {
      fssdp::detail::visit_element(entry.dtype, [&](auto element) {
        REQUIRE(fssdp::file_dtype_of<decltype(element)> == entry.dtype);
        ++visited;
      });
    };
    CAPTURE(entry.name);
    if (fssdp::is_element(entry.dtype)) {
      visit();
    } else {
      REQUIRE_THROWS_AS(visit(), fssdp::argument_error);
      REQUIRE_THROWS_WITH(visit(), mentions(std::string{entry.name} + "; expected"));
    }
  }
  REQUIRE(visited == 6);
}
