// The collective check: reports the first condition that a collective does not meet.
#include "karez/comm/collective/collective_check.h"

#include <cstddef>
#include <string>
#include <string_view>

#include "karez/base/error.h"
#include "karez/comm/collective/box_copy.h"

namespace karez::comm {
namespace {
std::string print(const TensorBox& box) { return cat(box.begin, "+", box.size); }

void check_box(const CollectiveSpec& spec, const View& view, const TensorBox& box, std::string_view list, int member) {
  if (count_of(view, box) == 0 && box.begin.size() == box.size.size()) return;
  bool inside = box.begin.size() == view.shape.size() && box.size.size() == view.shape.size();
  for (std::size_t d = 0; inside && d < view.shape.size(); ++d)
    inside = box.begin[d] >= 0 && box.size[d] >= 0 && box.begin[d] + box.size[d] <= view.shape[d];
  if (!inside)
    fail(name_of(spec.kind), ": ", list, "[", member, "] must be inside ", view, ", got the box ", print(box));
}

void require_same_size(const CollectiveSpec& spec, const TensorBox& send, const TensorBox& receive) {
  bool both_empty = count_of(spec.in, send) == 0 && count_of(spec.out, receive) == 0;
  if (!both_empty && send.size != receive.size)
    fail(name_of(spec.kind), ": member ", spec.member, " sends itself a box of ", send.size, " but receives one of ",
         receive.size);
}
}  // namespace

void check(const CollectiveSpec& spec) {
  std::string_view name = name_of(spec.kind);
  require(spec.members >= 1 && spec.member >= 0 && spec.member < spec.members, name, ": member must be from 0 to ",
          spec.members - 1, ", got ", spec.member);
  require(spec.chunk >= 1, name, ": chunk must be at least 1 byte, got ", spec.chunk, " bytes");
  require(spec.in.dtype == spec.out.dtype, name, ": data types differ: input ", spec.in, ", output ", spec.out);
  bool reduces = spec.kind == CollectiveKind::all_reduce || spec.kind == CollectiveKind::reduce_scatter;
  require(!reduces || spec.reduce != nullptr || spec.members == 1, name, ": no reduce function for ", spec.in);
  if (spec.kind == CollectiveKind::all_reduce) {
    bool same_view = spec.in.shape == spec.out.shape && same_order(spec.in.shape, spec.in.strides, spec.out.strides);
    require(same_view && is_dense(spec.in.shape, spec.in.strides), name, ": input ", spec.in, " and output ", spec.out,
            " must be the same dense view");
    return;
  }
  auto members = static_cast<std::size_t>(spec.members);
  require(spec.sends.size() == members && spec.receives.size() == members, name,
          ": expected a send box and a receive box for each of ", members, " members, got ", spec.sends.size(), " and ",
          spec.receives.size());
  for (int m = 0; m < spec.members; ++m) {
    check_box(spec, spec.in, spec.sends[m], "sends", m);
    check_box(spec, spec.out, spec.receives[m], "receives", m);
    if (spec.kind == CollectiveKind::reduce_scatter && count_of(spec.out, spec.receives[m]) != spec.out.count())
      fail(name, ": receives[", m, "] must be all of ", spec.out, ", got the box ", print(spec.receives[m]));
    if (spec.kind == CollectiveKind::all_gather && count_of(spec.in, spec.sends[m]) != spec.in.count())
      fail(name, ": sends[", m, "] must be all of ", spec.in, ", got the box ", print(spec.sends[m]));
  }
  require_same_size(spec, spec.sends[spec.member], spec.receives[spec.member]);
}

}  // namespace karez::comm
