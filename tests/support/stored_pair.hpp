// SPDX-License-Identifier: Apache-2.0
/// A small checkpoint of two ranks, and the result of reading its files.
#pragma once

#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "fssdp/comm/thread.hpp"
#include "support/stored_instance.hpp"
#include "support/temporary_folder.hpp"

namespace support {

/// Four experts in two slices each, floats and doubles.
class stored_pair {
 public:
  stored_pair() {
    fssdp::thread_world{2}.run([&](fssdp::thread_communicator& comm) {
      save_numbers<float, double>(comm, model(), layout(),
                                  {.folder = folder_.path(), .step = 1, .state = "some state"});
    });
  }

  [[nodiscard]] static stored_model model() { return {4, {{"w1", {3, 7}}, {"b1", {5}}}}; }
  [[nodiscard]] static reversed_layout layout() {
    auto owners = std::vector<fssdp::rank_id>{};
    for (int chunk = 0; chunk < 8; ++chunk) owners.emplace_back(chunk % 3 == 0 ? 0 : 1);
    return {2, owners, 2};
  }
  [[nodiscard]] std::filesystem::path folder() const { return folder_.path() / "step_00000001"; }
  /// The index and the files of the ranks.
  [[nodiscard]] std::vector<std::filesystem::path> files() const {
    return {folder() / "checkpoint.json", folder() / "rank_0_of_2.1.safetensors",
            folder() / "rank_1_of_2.1.safetensors"};
  }

  /// What a reader of all of it says: "" if it has got what was saved. Anything but a file_error is
  /// marked as such.
  [[nodiscard]] std::string complaint() const {
    auto const whole = reversed_layout{1, std::vector(4, fssdp::rank_id{0}), 1};
    auto weights = fssdp::make_shard<float>(whole, fssdp::rank_id{0}, model().elements());
    auto moments = fssdp::make_shard<double>(whole, fssdp::rank_id{0}, model().elements());
    try {
      auto part = fssdp::loaded_part{"experts", whole, fssdp::rank_id{0}, model().tensors};
      part.add("weight", weights).add("moment1", moments);
      auto reader = fssdp::checkpoint_reader{folder()};
      if (reader.index().state != "some state") return "WRONG state";
      reader.read(part);
    } catch (fssdp::file_error const& error) {
      return error.what();
    } catch (fssdp::argument_error const& error) {
      return std::string{"ARGUMENT "} + error.what();
    } catch (std::exception const& error) {
      return std::string{"OTHER "} + error.what();
    }
    auto const wrong = wrong_elements(model(), whole, fssdp::rank_id{0}, 0, weights) +
                       wrong_elements(model(), whole, fssdp::rank_id{0}, 1, moments);
    return wrong == 0 ? "" : "WRONG elements";
  }

 private:
  temporary_folder folder_;
};

}  // namespace support
