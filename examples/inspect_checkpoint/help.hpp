// SPDX-License-Identifier: Apache-2.0
/// What --help says besides the options.
#pragma once

namespace stored::detail {

inline constexpr auto description =
    "Shows what a folder of safetensors files holds: a checkpoint of fssdp, or a published model.\n"
    "Nothing is changed.";

inline constexpr auto footer =
    R"(FOLDER is one of
  the folder of all checkpoints of a run: the last complete checkpoint is shown
  the folder of one step, or of a model
  one safetensors file

Of a checkpoint (written by fssdp::save_checkpoint) it shows
  the step, the other steps in the folder, and whether each is complete
  each part: layers, experts, slices, the tensors of an expert, its groups (weights, moments) and
  their types, and how many chunks and bytes each rank owned; --json has the owner of every chunk
  what is missing: files, and tensors of chunks
Of a model it shows
  the model family, which it recognizes by the names of tensors
  the layers that have experts, and the shapes that fssdp::load_tensors returns: weights
  [outputs, inputs]
  what is missing: experts, and files and tensors of model.safetensors.index.json
Of both it shows the files, and the types with their bytes.

Checksums: fssdp::save_checkpoint writes one for each MiB. All bytes are read to verify them, unless
--headers-only is given. Files of other programs have none.

Types are those of safetensors: F32, BF16, F8_E4M3, ... Of a model, load_tensors reads F64, F32,
F16 and BF16. Tensors of fp8 or 4 bits, with scales in other tensors, are shown here, but
load_tensors does not read them.

JSON: kind ("checkpoint" or "model"), folder, bytes, tensors, files, types, problems; of a
checkpoint step, complete_steps, incomplete_steps, state_bytes and parts; of a model has_index and
experts, which are null if the family is not known.

Exit status: 0; 1 if something is missing, damaged or cannot be read; 2 for a wrong command line.

Examples
  inspect_checkpoint run
  inspect_checkpoint run/step_00000020 --headers-only
  inspect_checkpoint OLMoE-1B-7B-0924 --json > olmoe.json)";

}  // namespace stored::detail
