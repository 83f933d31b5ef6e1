# The compiler cache, where it is installed (Debian: ccache) and no other launcher is given; -DKAREZ_CCACHE=OFF leaves it out.
option(KAREZ_CCACHE "compile through ccache where it is installed" ON)
find_program(CCACHE ccache)
if(NOT KAREZ_CCACHE OR NOT CCACHE OR CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()
# Paths below the clone are hashed as relative ones, so that a clone in another folder hits. Precompiled headers are hashed by their bytes, and
# what a unit includes is read from its dependency file, so that a miss costs no second run of the preprocessor.
set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
  CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
add_compile_options(-fpch-preprocess)
