// For tests and benchmarks: the source folder, found at run time, so that no absolute path is compiled in.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace karez::base {

// Returns KAREZ_SOURCE if it is set. Otherwise returns the nearest folder above the program that contains `dev` and
// CMakeLists.txt, usually the parent of the build folder.
inline std::filesystem::path source_folder() {
  namespace fs = std::filesystem;
  if (const char* source_path = std::getenv("KAREZ_SOURCE")) return source_path;
  for (fs::path at = fs::read_symlink("/proc/self/exe").parent_path(); at != at.root_path(); at = at.parent_path())
    if (fs::exists(at / "dev") && fs::exists(at / "CMakeLists.txt")) return at;
  throw std::runtime_error("the program is outside of the source folder; set KAREZ_SOURCE to that folder");
}

}  // namespace karez::base
