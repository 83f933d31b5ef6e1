# Builds the package karez in build/python if Python's headers and nanobind are found (.venv is searched first). -DKAREZ_PYTHON=OFF disables this. A build
# with AddressSanitizer has the package too; ./dev test --asan then starts Python with LD_PRELOAD.
set(KAREZ_PYTHON AUTO CACHE STRING "build the Python package: ON, OFF or AUTO (if Python and nanobind are found)")
if(NOT KAREZ_PYTHON OR KAREZ_SANITIZE STREQUAL thread OR KAREZ_FUZZ)
  return()
endif()
if(NOT SKBUILD AND NOT Python_EXECUTABLE AND EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
find_package(Python 3.9 COMPONENTS Interpreter Development.Module QUIET)
if(Python_FOUND AND NOT nanobind_ROOT)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT ERROR_QUIET)
endif()
find_package(nanobind CONFIG QUIET)
if(NOT Python_FOUND OR NOT nanobind_FOUND)
  if(NOT KAREZ_PYTHON STREQUAL AUTO)
    message(FATAL_ERROR "the Python package needs Python's headers (Debian: python3-dev) and nanobind (./dev deps installs both)")
  endif()
  message(STATUS "no Python package: Python's headers or nanobind are not found")
  return()
endif()

file(GLOB bindings CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/src/*.cc)
nanobind_add_module(karez_python NB_STATIC NB_DOMAIN karez ${bindings})
link_components(karez_python PRIVATE api)
target_compile_definitions(karez_python PRIVATE KAREZ_VERSION="${PROJECT_VERSION}")
target_link_options(karez_python PRIVATE -Wl,--build-id)
if(NOT KAREZ_SANITIZE)
  target_compile_options(karez_python PRIVATE -O2)  # nanobind's default is -Os
  target_precompile_headers(karez_python PRIVATE ${standard_headers} <nanobind/nanobind.h> <nanobind/ndarray.h> <nanobind/operators.h>
    <nanobind/stl/map.h> <nanobind/stl/optional.h> <nanobind/stl/pair.h> <nanobind/stl/shared_ptr.h> <nanobind/stl/string.h>
    <nanobind/stl/string_view.h> <nanobind/stl/vector.h>)
endif()  # with AddressSanitizer GCC 12 needs 9 GB to read this precompiled header, and fails
set_target_properties(karez_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/karez)

# The package's files are links next to the module, so that an edit needs no build.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/python ${CMAKE_SOURCE_DIR}/python/karez/*.py
     ${CMAKE_SOURCE_DIR}/python/karez/py.typed)
foreach(source ${sources})
  get_filename_component(folder ${CMAKE_BINARY_DIR}/python/${source} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/python/${source} ${CMAKE_BINARY_DIR}/python/${source} SYMBOLIC)
endforeach()

# The stub of the module, for type checkers.
if(KAREZ_SANITIZE)
  add_custom_target(karez_stubs)
  return()
endif()
set(stub ${CMAKE_BINARY_DIR}/python/karez/_core.pyi)
list(TRANSFORM sources PREPEND ${CMAKE_SOURCE_DIR}/python/)
add_custom_command(
  OUTPUT ${stub}
  COMMAND ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/python_stubs.py ${CMAKE_BINARY_DIR}/python ${stub}
  DEPENDS karez_python ${CMAKE_SOURCE_DIR}/tools/python_stubs.py ${sources})
add_custom_target(karez_stubs ALL DEPENDS ${stub})
install(FILES ${stub} DESTINATION karez COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS karez_python LIBRARY DESTINATION karez COMPONENT python EXCLUDE_FROM_ALL)  # by pip, see pyproject.toml
