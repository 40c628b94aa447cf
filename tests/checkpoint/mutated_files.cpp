// SPDX-License-Identifier: Apache-2.0
/// Ten thousand files with random changes.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/checkpoint/checkpoint_index.hpp"
#include "fssdp/checkpoint/parse_safetensors.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/mutated_bytes.hpp"
#include "support/stored_pair.hpp"
#include "support/temporary_folder.hpp"

TEST_CASE("a checkpoint with a file that was changed at random is refused by that file's name") {
  auto const pair = support::stored_pair{};
  auto const files = pair.files();
  auto whole = std::vector<std::string>{};
  for (auto const& path : files) whole.push_back(support::bytes_of_file(path));
  constexpr auto wanted = 10'000;
  auto changed = 0;
  for (auto seed = std::uint64_t{1}; changed < wanted; ++seed) {
    auto draw = support::dice{seed};
    auto const which = static_cast<std::size_t>(draw.between(0, 2));
    auto const bytes = support::mutated_bytes(whole[which], draw);
    if (bytes == whole[which]) continue;
    ++changed;
    support::write_bytes(files[which], bytes);
    auto const said = pair.complaint();
    if (!said.starts_with(files[which].string() + ": ")) {
      CAPTURE(seed, files[which], said);
      REQUIRE(false);
    }
    support::write_bytes(files[which], whole[which]);
  }
  REQUIRE(pair.complaint().empty());
}

TEST_CASE("a header or an index changed at random is refused, or is valid") {
  auto const pair = support::stored_pair{};
  auto const file = support::bytes_of_file(pair.files()[1]);
  auto const header = fssdp::safetensors_file{pair.files()[1]}.header();
  auto const json = file.substr(8, file.size() - 8 - header.data_bytes());
  auto const text = support::bytes_of_file(pair.files()[0]);
  auto const begin = text.find("\"content\":") + 10;
  auto const content = text.substr(begin, text.size() - begin - 2);
  auto const metadata_ends = json.find("\"},") + 3;
  auto headers = 0;
  auto indexes = 0;
  for (auto seed = std::uint64_t{1}; seed <= std::uint64_t{support::law_instances}; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{seed};
    try {
      // mostly what describes tensors, not the checksums
      auto const changed = support::mutated_bytes(json, draw, support::bytes_of_json,
                                                  draw.chance(80) ? metadata_ends : 0);
      auto const parsed = fssdp::parse_safetensors(changed, header.data_bytes());
      auto end = std::uint64_t{0};  // what is accepted is sound
      for (auto const& tensor : parsed.tensors()) {
        REQUIRE(tensor.first == end);
        end += tensor.bytes;
      }
      REQUIRE(end == header.data_bytes());
      ++headers;
    } catch (fssdp::file_error const& error) {
      REQUIRE(std::string{error.what()} != "");
    }
    auto const changed = support::mutated_bytes(content, draw);
    auto const index = R"({"fssdp_checkpoint":1,"checksum":")" +
                       fssdp::detail::to_hex(fssdp::checksum(changed)) +
                       "\",\n\"content\":" + changed + "}\n";
    try {
      auto const parsed = fssdp::parse_checkpoint_index(index);
      for (auto const& part : parsed.parts)
        for (auto const owner : part.owners)
          REQUIRE(static_cast<std::size_t>(owner) < parsed.files.size());
      ++indexes;
    } catch (fssdp::file_error const& error) {
      REQUIRE(std::string{error.what()} != "");
    }
  }
  // some changes are harmless: names, spaces, checksums
  REQUIRE(headers > support::law_instances / 1000);
  REQUIRE(headers < support::law_instances / 2);
  REQUIRE(indexes > support::law_instances / 1000);
  REQUIRE(indexes < support::law_instances / 2);
}
