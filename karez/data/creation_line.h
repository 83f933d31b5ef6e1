// The line of the program that creates a stage, for profiles and warnings.
#pragma once

#include <string>

#include "karez/data/namespace.h"

namespace karez::data {

// Sets the function that gives the line of the program from which the calling thread was called, such as "train.py:12",
// or "" if there is none. Until then, lines are not known. Must be called before data sets are created.
void set_line_provider(std::string (*provider)());
std::string creation_line();

}  // namespace karez::data
