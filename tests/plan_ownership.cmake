# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=... -DFOLDER=... -P plan_ownership.cmake: a question in JSON is answered in JSON,
# from a file and from standard input, and one that cannot be is refused by name.
set(question ${FOLDER}/plan_ownership.json)

# answer(<out> <json>): what the program says.
function(answer out json)
  file(WRITE ${question} "${json}")
  execute_process(COMMAND ${PROGRAM} ${question}
    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE complaint)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "plan_ownership ends with ${result}:\n${complaint}")
  endif()
  execute_process(COMMAND ${PROGRAM} - INPUT_FILE ${question} OUTPUT_VARIABLE again)
  if(NOT said STREQUAL again)
    message(FATAL_ERROR "expected the same of standard input, got\n${again}")
  endif()
  set(${out} "${said}" PARENT_SCOPE)
endfunction()

# expect(<json> <value> <key>...): the answer has this there.
function(expect json value)
  string(JSON found GET "${json}" ${ARGN})
  if(NOT found STREQUAL value)
    message(FATAL_ERROR "expected ${value} at ${ARGN}, not ${found}, in\n${json}")
  endif()
endfunction()

# refuse(<status> <text> <json>): it ends with this status and says so.
function(refuse status text json)
  file(WRITE ${question} "${json}")
  execute_process(COMMAND ${PROGRAM} ${question}
    RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE complaint)
  string(FIND "${complaint}" "${text}" position)
  if(NOT result EQUAL status OR position EQUAL -1)
    message(FATAL_ERROR "expected exit status ${status} and '${text}', got ${result}:\n${complaint}")
  endif()
endfunction()

# 3 3 2 2 2 on two ranks are 6 and 6.
set(five [=[{"name": "a", "bytes": 3}, {"name": "b", "bytes": 3}, {"name": "c", "bytes": 2},
  {"name": "d", "bytes": 2}, {"name": "e", "bytes": 2}]=])
answer(json "{\"ranks\": 2, \"items\": [${five}]}")
expect("${json}" 1.0 fullness)
expect("${json}" 6 most bytes)
string(JSON a GET "${json}" owners a)
expect("${json}" ${a} owners b)

# All that can be asked at once: c is fixed, b is apart from it, a stays on its node, d is new.
answer(json [=[{"ranks": 4, "nodes": 2, "nic_per": "node", "nic_bytes_per_second": [1, 1, 1, 1],
  "items": [
    {"name": "a", "bytes": 4, "step_cost": 1, "load": 1, "owner": 3, "same_node": true},
    {"name": "b", "bytes": 4, "owner": 3},
    {"name": "c", "bytes": 4, "on_ranks": [3], "owner": 0},
    {"name": "d", "bytes": 4, "owner": null}],
  "together": [["a", "b"]], "apart": [["b", "c"]], "near": [["a", "c"]],
  "weights": {"bytes": 1, "step_cost": 0, "load": 0, "interface": 0}, "price_per_byte": 0.001,
  "most_moved_bytes": 100, "precision": 0.001, "trials": 1000, "exact_items": 20}]=])
expect("${json}" 2 owners a)
expect("${json}" 2 owners b)
expect("${json}" 3 owners c)
expect("${json}" 12 moved_bytes)
expect("${json}" 12 forced_bytes)
expect("${json}" 1 near_sets)
string(JSON count LENGTH "${json}" moves)
if(NOT count EQUAL 3)
  message(FATAL_ERROR "expected 3 moves in\n${json}")
endif()

# Errors name the key and the item.
set(items "\"items\": [${five}]")
refuse(1 "plan_ownership.json: no valid JSON" "{")
refuse(1 "no \"ranks\"" "{${items}}")
refuse(1 "unknown key \"rank\"" "{\"ranks\": 2, \"rank\": 2, ${items}}")
refuse(1 "question.ranks: -2" "{\"ranks\": -2, ${items}}")
refuse(1 "3 nodes for 2 ranks" "{\"ranks\": 2, \"nodes\": 3, ${items}}")
refuse(1 "question.nic_per: \"host\"" "{\"ranks\": 2, \"nic_per\": \"host\", ${items}}")
refuse(1 "question.node_of: [0]; expected 2 nodes" "{\"ranks\": 2, \"node_of\": [0], ${items}}")
refuse(1 "item \"a\": no \"bytes\"" [=[{"ranks": 2, "items": [{"name": "a"}]}]=])
refuse(1 "item \"a\".owner: 2; expected a rank from 0 to 1"
  [=[{"ranks": 2, "items": [{"name": "a", "bytes": 1, "owner": 2}]}]=])
refuse(1 "items[1].name: \"a\"; expected a name that no other item has"
  [=[{"ranks": 2, "items": [{"name": "a", "bytes": 1}, {"name": "a", "bytes": 1}]}]=])
refuse(1 "question.apart[0][1]: \"z\"; expected the name of an item"
  "{\"ranks\": 2, \"apart\": [[\"a\", \"z\"]], ${items}}")
refuse(1 "items \"a\" and \"c\" are in one set of `apart` and go together"
  "{\"ranks\": 2, \"apart\": [[\"a\", \"c\"]], \"together\": [[\"c\", \"b\", \"a\"]], ${items}}")
refuse(1 "items \"a\", \"b\", \"c\" are apart"
  "{\"ranks\": 2, \"apart\": [[\"c\", \"b\", \"a\"]], ${items}}")
refuse(1 "price_per_byte is -1" "{\"ranks\": 2, \"price_per_byte\": -1, ${items}}")
execute_process(COMMAND ${PROGRAM} ${FOLDER}/no-such.json
  RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE complaint)
if(NOT result EQUAL 1 OR NOT complaint MATCHES "no-such.json: cannot be read")
  message(FATAL_ERROR "expected exit status 1 and the name of the file, got ${result}:\n${complaint}")
endif()
message("plan_ownership answers, and refuses what cannot be")
