# Rejects a compiler that is too old for Karez and names the command that installs another.
set(oldest_GNU 12)  # the version of Debian 12, the oldest with which Karez is built
set(oldest_Clang 14)
set(oldest ${oldest_${CMAKE_CXX_COMPILER_ID}})
if(oldest AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS oldest)
  install_line(line g++-${oldest_GNU})
  message(FATAL_ERROR "the compiler ${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, "
    "but Karez needs at least GNU ${oldest_GNU} or Clang ${oldest_Clang}: ${line}; then, in an empty build folder, CXX=g++-${oldest_GNU} ./dev build")
endif()
