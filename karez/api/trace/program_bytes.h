// An estimate of the memory that a cached program of expressions needs between its calls.
#pragma once

#include <cstdint>
#include <string_view>

#include "karez/api/trace/expression_program.h"
#include "karez/sbp/mesh.h"

namespace karez {

// Returns the bytes of the program's graphs, plan and kernels, and of the values that depend only on constants, which
// the setup of its plan computes and keeps. Operands and variables exist without the program; all other values are in
// the arena that plans share. The result is the same on all ranks. `key` is the key of the program.
std::int64_t kept_bytes(const ExpressionProgram& program, const Mesh& mesh, std::string_view key);

}  // namespace karez
