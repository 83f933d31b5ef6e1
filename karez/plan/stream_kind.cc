// Converts kinds of streams to and from their names.
#include "karez/plan/stream_kind.h"

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::plan {

std::string_view name_of(StreamKind kind) {
  switch (kind) {
    case StreamKind::host: return "host";
    case StreamKind::compute: return "compute";
    case StreamKind::comm: return "comm";
  }
  return "?";
}

StreamKind stream_kind_from(std::string_view name) {
  constexpr StreamKind kinds[] = {StreamKind::host, StreamKind::compute, StreamKind::comm};
  for (StreamKind kind : kinds)
    if (name_of(kind) == name) return kind;
  fail("unknown kind of stream '", name,
       "'; expected one of: ", join(kinds, ", ", [](StreamKind kind) { return name_of(kind); }));
}

}  // namespace karez::plan
