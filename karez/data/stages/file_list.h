// The files that paths and patterns select.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "karez/data/namespace.h"

namespace karez::data {

// Each text is a path, or a pattern with *, ? and [a-z] whose matches are sorted. Errors begin with `function`.
std::vector<std::string> files_of(std::string_view function, const std::vector<std::string>& patterns);

// "12 files with hash 0123456789abcdef": the hash of the names from the last folder that contains all files.
std::string file_list_text(const std::vector<std::string>& paths);

}  // namespace karez::data
