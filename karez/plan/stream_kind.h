// The kinds of streams: which work of a device a stream runs.
#pragma once

#include <cstdint>
#include <ostream>
#include <string_view>

#include "karez/plan/namespace.h"

namespace karez::plan {

// host: input actors. comm: transfers between devices. compute: all other work.
enum class StreamKind : std::uint8_t { host, compute, comm };
std::string_view name_of(StreamKind kind);
StreamKind stream_kind_from(std::string_view name);  // throws for an unknown name and lists the known ones
inline std::ostream& operator<<(std::ostream& out, StreamKind kind) { return out << name_of(kind); }

}  // namespace karez::plan
