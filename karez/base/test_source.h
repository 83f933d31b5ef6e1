// For tests and benchmarks: the folder of the sources, found when they run, so that no absolute path is compiled in.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace karez::base {

// KAREZ_SOURCE where it is set; else the nearest folder above the program that holds `dev` and CMakeLists.txt, as the
// build folder's parent does.
inline std::filesystem::path source_folder() {
  namespace fs = std::filesystem;
  if (const char* given = std::getenv("KAREZ_SOURCE")) return given;
  for (fs::path at = fs::read_symlink("/proc/self/exe").parent_path(); at != at.root_path(); at = at.parent_path())
    if (fs::exists(at / "dev") && fs::exists(at / "CMakeLists.txt")) return at;
  throw std::runtime_error("the program lies outside of the sources' folder: KAREZ_SOURCE must name that folder");
}

}  // namespace karez::base
