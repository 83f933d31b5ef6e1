// For tests: the text of the error that a function throws.
#pragma once

#include <string>

#include "karez/base/error.h"

namespace karez::base {

inline std::string error_of(auto&& body) {
  try {
    body();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

}  // namespace karez::base
