# The linker: gold, where it is installed (binutils), links in half of the time that ld takes.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT SKBUILD)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=gold KAREZ_GOLD)
  if(KAREZ_GOLD)
    add_link_options(-fuse-ld=gold)
  endif()
endif()
