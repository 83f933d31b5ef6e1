# Uses the compiler cache if it is installed (Debian: ccache) and no other launcher is set; -DKAREZ_CCACHE=OFF disables it.
option(KAREZ_CCACHE "compile with ccache if it is installed" ON)
find_program(CCACHE ccache)
if(NOT KAREZ_CCACHE OR NOT CCACHE OR CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()
# Paths below the clone are hashed as relative paths, so that a clone in another folder finds its entries. Precompiled headers are hashed by their bytes, and
# the includes of a unit are read from its dependency file, so that a miss needs no second run of the preprocessor.
set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
  CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
add_compile_options(-fpch-preprocess)
