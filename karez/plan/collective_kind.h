// The kinds of collectives, and the algorithms that run them.
#pragma once

#include <cstdint>
#include <ostream>
#include <string_view>

#include "karez/plan/namespace.h"

namespace karez::plan {

// A transfer is an all_to_all in which a member may lack an operand (its view has no elements), and most boxes are
// empty.
enum class CollectiveKind : std::uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all, transfer };
std::string_view name_of(CollectiveKind kind);
CollectiveKind collective_kind_from(std::string_view name);  // throws for an unknown name and lists the known ones
inline std::ostream& operator<<(std::ostream& out, CollectiveKind kind) { return out << name_of(kind); }

// ring       each member exchanges data with its two neighbours only; n-1 rounds (all_reduce 2n-2); for many members.
//            An all_to_all runs as direct
// direct     all pairs exchange data at once; 1 round (all_reduce 2); fastest for few members with shared memory
// flat       all_reduce in one round: every member sends all its data to every other member; for few bytes.
//            Other kinds run as direct
// recursive  all_reduce of n = 2^k members by halving and doubling, 2k rounds; for few bytes and many members.
//            Other kinds, and other numbers of members, run as direct
enum class CollectiveAlgorithm : std::uint8_t { ring, direct, flat, recursive };
std::string_view name_of(CollectiveAlgorithm algorithm);
CollectiveAlgorithm collective_algorithm_from(std::string_view name);  // throws like collective_kind_from
inline std::ostream& operator<<(std::ostream& out, CollectiveAlgorithm algorithm) { return out << name_of(algorithm); }

}  // namespace karez::plan
