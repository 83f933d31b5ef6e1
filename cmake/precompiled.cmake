# Precompiled headers: the standard library for the components, GTest for the tests. They contain no header of Karez, so that an edit
# compiles only the units that include the edited file, and a compiler cache hits in every folder.
set(standard_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <functional> <map> <memory> <mutex> <numeric> <optional>
  <ostream> <set> <span> <string> <string_view> <tuple> <unordered_map> <utility> <variant> <vector>)
file(CONFIGURE OUTPUT precompiled.cc CONTENT "")
add_library(standard_header STATIC ${CMAKE_BINARY_DIR}/precompiled.cc)
set_target_properties(standard_header PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_precompile_headers(standard_header PRIVATE ${standard_headers})
if(SKBUILD)
  return()
endif()

# Tests are compiled for the least total time of build and run: at -O0, but those that compute much (brute force, oracles) and shared helpers
# (test_*.cc) at -O1. They have no line tables (-g0), except for a sanitizer, which reports lines,
# and for ./dev mutants, which looks up which tests run a line of a header.
set(computing_tests
  karez/comm/collective/collective_test.cc karez/comm/transport/conformance_test.cc karez/comm/rendezvous/peers_test.cc karez/comm/transport/processes_test.cc karez/comm/transport/frame_reader_test.cc karez/comm/transport/eager_test.cc
  karez/kernels/cpu/fast_half_precision_test.cc karez/kernels/cpu/fast_row_test.cc karez/kernels/cpu/fast_kernels_test.cc
  karez/passes/logical/canonicalise_random_test.cc karez/passes/memory_limit/fit_memory_test.cc karez/passes/memory_limit/frontier_test.cc karez/passes/lowering/memory_states_test.cc karez/passes/sharding/shard_brute_test.cc karez/passes/sharding/shard_placements_test.cc
  karez/runtime/event_ring_test.cc
  karez/sbp/transition_test.cc karez/sbp/transition_tree_test.cc
  karez/solve/group_reachability_test.cc karez/solve/min_sum_test.cc karez/solve/packing_search_test.cc karez/solve/packing_test.cc karez/solve/slots_brute_test.cc karez/solve/slots_test.cc)
set(test_lines -g0)
if(KAREZ_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL Mutants)
  set(test_lines -g1)
endif()
foreach(group gtest_O0 gmock_O0 gmock_O1)
  string(REGEX MATCH "^([a-z]+)_O(.)$" matched ${group})
  add_library(${group} STATIC EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(${group} PRIVATE GTest::gmock)
  target_compile_options(${group} PRIVATE -O${CMAKE_MATCH_2} ${test_lines})
  target_precompile_headers(${group} PRIVATE <${CMAKE_MATCH_1}/${CMAKE_MATCH_1}.h>)
endforeach()

# group_tests(SOURCES...): sets test_groups to those of gmock_O1, gmock_O0 and gtest_O0 that have sources, and a variable with the name of each group to
# the group's sources. GMock's matchers cost a tenth of a second per unit, so units without them use the precompiled header of GTest alone. The group at
# -O1 comes first, because the linker takes the first definition of an inline function.
macro(group_tests)
  set(test_groups gmock_O1 gmock_O0 gtest_O0)
  foreach(group ${test_groups})
    set(${group})
  endforeach()
  foreach(source ${ARGN})
    file(STRINGS ${source} matchers REGEX "^#include <gmock/" LIMIT_COUNT 1)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE short)
    if(short IN_LIST computing_tests)
      list(APPEND gmock_O1 ${source})
    elseif(matchers)
      list(APPEND gmock_O0 ${source})
    else()
      list(APPEND gtest_O0 ${source})
    endif()
  endforeach()
  foreach(group ${test_groups})
    if(NOT ${group})
      list(REMOVE_ITEM test_groups ${group})
    endif()
  endforeach()
endmacro()

# compile_as_tests(TARGET GROUP): sets the flags and the precompiled header of this group of tests.
function(compile_as_tests target group)
  string(REGEX REPLACE ".*_O" "" level ${group})
  target_compile_options(${target} PRIVATE -O${level} ${test_lines})
  target_precompile_headers(${target} REUSE_FROM ${group})
endfunction()
