// SPDX-License-Identifier: Apache-2.0
/// A checkpoint that is not what was written is refused, with the file and the cause.
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/checkpoint/checkpoint_index.hpp"
#include "fssdp/checkpoint/load_checkpoint.hpp"
#include "support/stored_pair.hpp"
#include "support/temporary_folder.hpp"

namespace {

namespace fs = std::filesystem;

/// An index whose checksum fits, whatever it says.
[[nodiscard]] std::string forged(std::string const& content) {
  return R"({"fssdp_checkpoint":1,"checksum":")" + fssdp::detail::to_hex(fssdp::checksum(content)) +
         "\",\n\"content\":" + content + "}\n";
}
[[nodiscard]] std::string complaint_about(std::string const& index) {
  try {
    (void)fssdp::parse_checkpoint_index(index);
  } catch (fssdp::file_error const& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a file of a checkpoint that is cut off anywhere is refused by name") {
  auto const pair = support::stored_pair{};
  REQUIRE(pair.complaint().empty());
  for (auto const& path : pair.files()) {
    auto const whole = support::bytes_of_file(path);
    REQUIRE(whole.size() > 100);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      support::write_bytes(path, whole.substr(0, length));
      auto const said = pair.complaint();
      if (!said.starts_with(path.string() + ": ")) {
        CAPTURE(path, length, said);
        REQUIRE(false);
      }
    }
    support::write_bytes(path, whole + " ");
    REQUIRE_THAT(pair.complaint(), mentions(path.string() + ": "));
    support::write_bytes(path, whole);
    REQUIRE(pair.complaint().empty());
  }
}

TEST_CASE("a file of a checkpoint with a bit that is wrong anywhere is refused by name") {
  auto const pair = support::stored_pair{};
  for (auto const& path : pair.files()) {
    auto const whole = support::bytes_of_file(path);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      auto changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
      support::write_bytes(path, changed);
      auto const said = pair.complaint();
      if (!said.starts_with(path.string() + ": ")) {
        CAPTURE(path, at, said);
        REQUIRE(false);
      }
    }
    support::write_bytes(path, whole);
  }
  REQUIRE(pair.complaint().empty());
}

TEST_CASE("files that are missing or of another checkpoint are refused by name") {
  auto const pair = support::stored_pair{};
  auto const files = pair.files();
  auto const first = support::bytes_of_file(files[1]);
  auto const second = support::bytes_of_file(files[2]);
  support::write_bytes(files[1], second);
  REQUIRE_THAT(pair.complaint(), mentions("rank_0_of_2") && mentions("its header differs"));
  fs::remove(files[1]);
  REQUIRE_THAT(pair.complaint(), mentions("rank_0_of_2") && mentions("No such file"));
  support::write_bytes(files[1], first);
  fs::remove(files[0]);
  REQUIRE_THAT(pair.complaint(), mentions("has no complete checkpoint"));
  support::write_bytes(files[0], R"({"weight_map": {}})");
  REQUIRE_THAT(pair.complaint(), mentions("checkpoint.json: it is not an index of a checkpoint"));
  support::write_bytes(files[0], "");
  REQUIRE_THAT(pair.complaint(), mentions("checkpoint.json: it is not an index"));
  fs::remove(files[0]);
  fs::create_directory(files[0]);
  REQUIRE_THAT(pair.complaint(), mentions("is not a regular file"));
  REQUIRE_THROWS_WITH(fssdp::checkpoint_reader{pair.folder() / "none"},
                      mentions("none: has no complete checkpoint"));
}

TEST_CASE("an index with a right checksum is still validated") {
  auto const pair = support::stored_pair{};
  auto const text = support::bytes_of_file(pair.files()[0]);
  auto const begin = text.find("\"content\":") + 10;
  auto const good = nlohmann::json::parse(text.substr(begin, text.size() - begin - 2));
  REQUIRE(complaint_about(forged(good.dump())) == "accepted");

  auto const with = [&](char const* pointer, nlohmann::json const& value) {
    auto changed = good;
    changed[nlohmann::json::json_pointer{pointer}] = value;
    return forged(changed.dump());
  };
  auto const without = [&](char const* parent, char const* key) {
    auto changed = good;
    changed[nlohmann::json::json_pointer{parent}].erase(key);
    return forged(changed.dump());
  };
  struct hostile {
    std::string index;
    char const* cause;
  };
  auto future = text;
  future.replace(future.find(":1,"), 3, ":7,");
  auto later = text;
  later.replace(later.find(":1,"), 3, ":99999999999999,");
  auto const cases = std::vector<hostile>{
      {future, "of version 7; expected 1"},
      {later, "not an index of a checkpoint"},
      {forged(""), "not JSON"},
      {forged("{"), "not JSON"},
      {forged("{}"), "lacks 'step'"},
      {forged("[]"), "lacks 'step'"},
      {forged(std::string{"{}\0", 3}), "zero byte"},
      {forged(std::string(1'000'000, '[')), "over 8 levels deep"},
      {forged([] {
         auto deep = std::string{};
         for (int i = 0; i < 100'000; ++i) deep += R"({"a":)";
         return deep;
       }()),
       "over 8 levels deep"},
      {forged(R"({"step":1,"step":2})"), "it has 'step' twice"},
      {with("/step", -1), "'step' is not a whole number"},
      {with("/step", 1.5), "'step' is not a whole number"},
      {with("/step", "1"), "'step' is not a whole number"},
      {with("/state", 1), "'state' is not a string"},
      {without("", "state"), "lacks 'state'"},
      {with("/files", nlohmann::json::array()), "it has no files"},
      {with("/files", 3), "'files' is not a list"},
      {with("/files/0", 3), "lacks 'header'"},
      {with("/files/0/name", "../rank"), "'../rank' is not a file name"},
      {with("/files/0/name", "/etc/passwd"), "is not a file name"},
      {with("/files/0/name", ".."), "is not a file name"},
      {with("/files/0/name", ""), "is not a file name"},
      {with("/files/0/header", "12"), "is not a checksum"},
      {with("/files/0/bytes", -1), "'bytes' is not a whole number"},
      {with("/parts/0/owners/3", 2), "'owners' is not a whole number from 0 to 1"},
      {with("/parts/0/owners/3", -1), "'owners' is not a whole number"},
      {with("/parts/0/owners", nlohmann::json::array()), "has 0 owners"},
      {with("/parts/0/slices", 3), "has 8 owners; expected 3"},
      {with("/parts/0/slices", 0), "'slices' is not a whole number"},
      {with("/parts/0/slices", 2147483648U), "'slices' is not a whole number"},
      {with("/parts/0/layers", 3), "expected 2 for each expert of 3 layers"},
      {with("/parts/0/pattern", "{host}"), "the gap '{host}'"},
      {with("/parts/0/tensors/0/shape", {1, -1}), "'shape' is not a whole number"},
      {with("/parts/0/tensors/0/shape", {4294967296U, 4294967296U}), "too many elements"},
      {with("/parts/0/groups/0/dtype", "I64"), "is of type 'I64'; expected F64"},
      {with("/parts/0/groups/0/dtype", "F31"), "is of type 'F31'"},
      {with("/parts/1", good["parts"][0]), "two parts 'experts'"},
      {text.substr(0, text.size() - 1), "cut off"},
      {text + " ", "cut off"},
  };
  for (auto const& [index, cause] : cases) {
    CAPTURE(index.substr(0, 200), cause);
    REQUIRE_THAT(complaint_about(index), mentions(cause));
  }
}

TEST_CASE("an index that lists more than the files hold is refused") {
  auto const pair = support::stored_pair{};
  auto const path = pair.files()[0];
  auto const text = support::bytes_of_file(path);
  auto const begin = text.find("\"content\":") + 10;
  auto const good = nlohmann::json::parse(text.substr(begin, text.size() - begin - 2));
  auto const complaint_with = [&](char const* pointer, nlohmann::json const& value) {
    auto changed = good;
    changed[nlohmann::json::json_pointer{pointer}] = value;
    support::write_bytes(path, forged(changed.dump()));
    return pair.complaint();
  };
  REQUIRE(complaint_with("/step", 2).empty());
  REQUIRE_THAT(complaint_with("/files/1/name", "rank_0_of_2.1.safetensors"),
               mentions("its header differs"));
  REQUIRE_THAT(complaint_with("/files/1/bytes", 5), mentions("its header differs"));
  REQUIRE_THAT(complaint_with("/parts/0/owners/1", 0),
               mentions("rank_0_of_2") && mentions("has no tensor 'experts.0.w1."));
  REQUIRE_THAT(complaint_with("/parts/0/groups/0/dtype", "F64"), mentions("elements of F64"));
  REQUIRE_THAT(complaint_with("/parts/0/pattern", "{expert}"),
               mentions("has no tensor '") && mentions("[0:11]'"));
  REQUIRE_THAT(complaint_with("/parts/0/slices", 1), mentions("ARGUMENT") && mentions("8 in 1"));
  REQUIRE_THAT(complaint_with("/parts/0/tensors/0/shape", {std::uint64_t{1} << 59U}),
               mentions("ARGUMENT") && mentions("shapes"));
}
