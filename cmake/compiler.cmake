# Refuses a compiler that is too old for Karez, with the line that installs another.
set(oldest_GNU 12)  # Debian 12's, and the oldest that Karez is built with
set(oldest_Clang 14)
set(oldest ${oldest_${CMAKE_CXX_COMPILER_ID}})
if(oldest AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS oldest)
  install_line(line g++-${oldest_GNU})
  message(FATAL_ERROR "the compiler ${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, "
    "but the oldest for Karez are GNU ${oldest_GNU} and Clang ${oldest_Clang}: ${line}; then, in an empty build folder, CXX=g++-${oldest_GNU} ./dev build")
endif()
