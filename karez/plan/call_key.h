// The key of a call in caches of what kernels can do with it.
#pragma once

#include <string>

#include "karez/plan/catalog.h"
#include "karez/plan/namespace.h"

namespace karez::plan {

// Appends all attributes as bytes, so that different attributes append different bytes.
void append_attrs(std::string& key, const Attrs& attrs);

// Contains all fields of the call as bytes, so that two calls have equal keys if and only if they are equal.
std::string call_key(const CallSpec& call);

}  // namespace karez::plan
