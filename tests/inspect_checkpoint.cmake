# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=... -DTRAINER=... -DFOLDER=... -P inspect_checkpoint.cmake: a run that has been
# saved is shown as text and as JSON; what is missing or damaged is named, and the exit status tells.
set(run ${FOLDER}/inspect_checkpoint_run)
file(REMOVE_RECURSE ${run})
execute_process(COMMAND ${TRAINER} --ranks 2 --experts 4 --layers 2 --d-model 8 --heads 1 --seq 8
    --batch 2 --steps 4 --save ${run} --save-every 2
  RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE complaint)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "moe_gpt ends with ${result}:\n${complaint}")
endif()

# inspect(<status> <out> <argument>...): what it says, on both outputs.
function(inspect status out)
  execute_process(COMMAND ${PROGRAM} ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE complaint)
  if(NOT result EQUAL status)
    message(FATAL_ERROR "inspect_checkpoint ${ARGN} ends with ${result}:\n${said}${complaint}")
  endif()
  set(${out} "${said}${complaint}" PARENT_SCOPE)
endfunction()
function(expect_text text)
  foreach(words IN LISTS ARGN)
    string(FIND "${text}" "${words}" position)
    if(position EQUAL -1)
      message(FATAL_ERROR "expected '${words}' in\n${text}")
    endif()
  endforeach()
endfunction()

inspect(0 text ${run})
expect_text("${text}" "checkpoint of step 4" "4 experts in each of 2 layers" "tensors are right")
inspect(0 json ${run} --json)
string(JSON kind GET "${json}" kind)
string(JSON step GET "${json}" step)
string(JSON parts LENGTH "${json}" parts)
string(JSON types GET "${json}" types F32 bytes)
string(JSON problems LENGTH "${json}" problems)
if(NOT kind STREQUAL "checkpoint" OR NOT step EQUAL 4 OR NOT parts GREATER 0 OR
   NOT types GREATER 0 OR NOT problems EQUAL 0)
  message(FATAL_ERROR "expected the checkpoint of step 4, whole, in\n${json}")
endif()

# A byte after the end, and a file that is gone.
file(GLOB files ${run}/step_00000004/rank_*.safetensors)
list(LENGTH files count)
if(NOT count EQUAL 2)
  message(FATAL_ERROR "expected a file for each of 2 ranks, not ${files}")
endif()
list(GET files 0 first)
file(APPEND ${first} "x")
inspect(1 text ${run})
expect_text("${text}" "${first}: its tensors end at byte")
file(REMOVE ${first})
inspect(1 json ${run} --json --headers-only)
string(JSON problem GET "${json}" problems 0)
expect_text("${problem}" "${first}: cannot open")

# One file of a rank is a model by itself, of no known family.
list(GET files 1 second)
inspect(0 text ${second})
expect_text("${text}" "of no known family" "expected all names of one of mixtral")

inspect(1 text ${FOLDER}/inspect_checkpoint_none)
expect_text("${text}" "inspect_checkpoint_none: is not there")
inspect(2 text)
expect_text("${text}" "FOLDER is required" "--help explains the options")
inspect(0 text --help)
expect_text("${text}" "Exit status" "inspect_checkpoint run")
file(REMOVE_RECURSE ${run})
