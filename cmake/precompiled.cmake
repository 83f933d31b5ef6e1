# Precompiled headers: of the standard library for the components, of GTest for the tests. No header of ours is in one, so that an edit
# compiles only what includes the edited file, and a compiler cache hits in every folder.
set(standard_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <functional> <map> <memory> <mutex> <numeric> <optional>
  <ostream> <set> <span> <string> <string_view> <tuple> <unordered_map> <utility> <variant> <vector>)
file(CONFIGURE OUTPUT precompiled.cc CONTENT "")
add_library(standard_header STATIC ${CMAKE_BINARY_DIR}/precompiled.cc)
set_target_properties(standard_header PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_precompile_headers(standard_header PRIVATE ${standard_headers})
if(SKBUILD)
  return()
endif()

# Tests are compiled as is quickest in build and run together: -O0, and -O1 where the tests themselves compute much (brute force, oracles). What
# several tests share (test_*.cc) is compiled once and runs often: -O2. They have no line tables (-g0), but where a sanitizer names lines.
set(computing_tests comm kernels passes runtime sbp solve system)
set(test_lines -g0)
if(KAREZ_SANITIZE)
  set(test_lines -g1)
endif()
foreach(level 0 1 2)
  add_library(gtest_header_O${level} STATIC ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(gtest_header_O${level} PRIVATE GTest::gmock)
  target_compile_options(gtest_header_O${level} PRIVATE -O${level} ${test_lines})
  target_precompile_headers(gtest_header_O${level} PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
endforeach()

# compile_as_tests(TARGET LEVEL): flags and precompiled header of tests at this level of optimisation.
function(compile_as_tests target level)
  target_compile_options(${target} PRIVATE -O${level} ${test_lines})
  target_precompile_headers(${target} REUSE_FROM gtest_header_O${level})
endfunction()
