# Precompiled headers: of the standard library for the components, of GTest for the tests. No header of ours is in one, so that an edit
# compiles only what includes the edited file, and a compiler cache hits in every folder.
set(standard_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <functional> <map> <memory> <mutex> <numeric> <optional>
  <ostream> <set> <span> <string> <string_view> <tuple> <unordered_map> <utility> <variant> <vector>)
file(CONFIGURE OUTPUT precompiled.cc CONTENT "")
add_library(standard_header STATIC ${CMAKE_BINARY_DIR}/precompiled.cc)
set_target_properties(standard_header PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_precompile_headers(standard_header PRIVATE ${standard_headers})

if(NOT SKBUILD)
  set(test_options -O1)  # tests run once or twice after they are compiled
  add_library(gtest_header STATIC ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(gtest_header PRIVATE GTest::gmock)
  target_compile_options(gtest_header PRIVATE ${test_options})
  target_precompile_headers(gtest_header PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
endif()
