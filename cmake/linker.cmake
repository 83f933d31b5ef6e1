# Uses the linker gold if it is installed (binutils), because it takes half as long as ld.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT SKBUILD)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=gold KAREZ_GOLD)
  if(KAREZ_GOLD)
    add_link_options(-fuse-ld=gold)
  endif()
endif()
