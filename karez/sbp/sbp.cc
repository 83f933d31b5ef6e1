// Text, boxes and validity of layouts.
#include "karez/sbp/sbp.h"

#include <algorithm>

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::sbp {
std::string print(Sbp sbp) {
  switch (sbp.kind) {
    case Sbp::Kind::split: return cat("S(", sbp.dim, ")");
    case Sbp::Kind::broadcast: return "B";
    case Sbp::Kind::partial: return cat("P(", name_of(sbp.reduce), ")");
  }
  return "?";
}

std::string print(const Layout& layout) {
  return cat("(", join(layout, ", ", [](Sbp sbp) { return print(sbp); }), ")");
}

Layout broadcast_layout(const Mesh& mesh) { return Layout(mesh.axes.size(), B()); }

std::string print(const TensorType& type, const Mesh& mesh, const Layout& layout) {
  std::string reason;
  require(ErrorKind::layout, is_valid(type, mesh, layout, &reason), reason);
  std::string out = cat(name_of(type.dtype), "[");
  for (int d = 0; d < type.rank(); ++d) {
    out += cat(d > 0 ? ", " : "", type.shape[d]);
    for (int a = 0; a < mesh.rank(); ++a)
      if (layout[a].is_split(d)) out += cat("@", mesh.axes[a].name);
  }
  std::string partial;
  for (int a = 0; a < mesh.rank(); ++a)
    if (layout[a].is_partial())
      partial += cat(partial.empty() ? name_of(layout[a].reduce) : "", "@", mesh.axes[a].name);
  bool split = std::any_of(layout.begin(), layout.end(), [](Sbp sbp) { return sbp.is_split(); });
  if (!partial.empty()) return cat(out, "; ", partial, "]");
  return cat(out, split ? "]" : ";]");
}

Shape shape_of(const Box& box) {
  Shape out;
  out.reserve(box.size());
  for (Range r : box) out.push_back(r.size());
  return out;
}

Box full_box(const Shape& shape) {
  Box out;
  out.reserve(shape.size());
  for (std::int64_t size : shape) out.push_back({0, size});
  return out;
}

Box intersect(const Box& a, const Box& b) {
  require(a.size() == b.size(), "boxes of rank ", a.size(), " and ", b.size(), " cannot be intersected");
  Box out;
  for (std::size_t d = 0; d < a.size(); ++d) {
    std::int64_t begin = std::max(a[d].begin, b[d].begin);
    out.push_back({begin, std::max(begin, std::min(a[d].end, b[d].end))});
  }
  return out;
}

bool empty(const Box& box) {
  return std::any_of(box.begin(), box.end(), [](Range r) { return r.size() <= 0; });
}

Range part_of(Range range, int parts, int index) {
  require(parts >= 1 && index >= 0 && index < parts, "there is no part ", index, " of ", parts);
  std::int64_t min_size = range.size() / parts, long_parts = range.size() % parts;
  std::int64_t begin = range.begin + min_size * index + std::min<std::int64_t>(index, long_parts);
  return {begin, begin + min_size + (index < long_parts ? 1 : 0)};
}

Box local_box(const Shape& shape, const Mesh& mesh, const Layout& layout, int position) {
  if (layout.size() != mesh.axes.size())
    fail(ErrorKind::layout, "layout ", print(layout), ": expected ", mesh.rank(), " entries, one for each axis of ",
         print(mesh), ", got ", layout.size());
  if (position < 0 || position >= mesh.size())
    fail("mesh: position ", position, " is outside ", print(mesh), " of ", mesh.size(), " devices");
  Box box = full_box(shape);
  int stride = mesh.size();
  for (int a = 0; a < mesh.rank(); ++a) {
    stride /= mesh.axes[a].size;
    if (!layout[a].is_split()) continue;
    if (layout[a].dim < 0 || layout[a].dim >= static_cast<int>(box.size()))
      fail(ErrorKind::layout, "layout ", print(layout), " splits dimension ", layout[a].dim, " of ", shape);
    Range& range = box[layout[a].dim];
    range = part_of(range, mesh.axes[a].size, position / stride % mesh.axes[a].size);
  }
  return box;
}

bool is_valid(const TensorType& type, const Mesh& mesh, const Layout& layout, std::string* reason) {
  auto reject = [&](const auto&... parts) {
    if (reason) *reason = cat("layout ", print(layout), " of ", type, " on ", print(mesh), ": ", parts...);
    return false;
  };
  if (layout.size() != mesh.axes.size())
    return reject("expected ", mesh.rank(), " entries, one for each axis, got ", layout.size());
  const Sbp* partial = nullptr;
  for (const Sbp& entry : layout) {
    if (entry.is_split() && (entry.dim < 0 || entry.dim >= type.rank()))
      return reject("there is no dimension ", entry.dim);
    if (!entry.is_partial()) continue;
    if (entry.reduce == Reduce::sum && !has_partial_sums(type.dtype))
      return reject("a ", type.dtype, " cannot be a partial sum",
                    is_half(type.dtype) ? ": it is rounded from a complete f32 sum" : "");
    if (partial && *partial != entry)
      return reject("a value must have one kind of Partial, got ", *partial, " and ", entry);
    partial = &entry;
  }
  return true;
}

}  // namespace karez::sbp
