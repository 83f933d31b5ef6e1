# Run by `cmake --install`: copies karez_headers of karez_source to include/karez. There they name each other <karez/base/error.h>, so that no
# folder called base or graph comes into a user's include path, and none of the user's is taken for ours.
set(staging ${karez_build}/installed/karez)
file(REMOVE_RECURSE ${staging})
foreach(header ${karez_headers})
  file(READ ${karez_source}/${header} text)
  string(REGEX REPLACE "#include \"([a-z]+/[a-z0-9_/]+\\.h)\"" "#include <karez/\\1>" text "${text}")
  file(WRITE ${staging}/${header} "${text}")
endforeach()
file(WRITE ${staging}/karez.h "// Everything a user's program needs.\n#pragma once\n\n#include <karez/api/karez.h>\n")
file(INSTALL ${staging} DESTINATION "${CMAKE_INSTALL_PREFIX}/include" TYPE DIRECTORY)
