// Legality and seconds of transitions on one axis.
#include "karez/sbp/transition.h"

#include <algorithm>
#include <cmath>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/sbp/axis_transition.h"

namespace karez::sbp {
namespace {
constexpr Move moves[] = {Move::slice,      Move::to_partial,     Move::all_gather,
                          Move::all_to_all, Move::reduce_scatter, Move::all_reduce};

void require_step(const TensorType& type, const Mesh& mesh, const TransitionStep& step) {
  std::string reason;
  require(ErrorKind::layout, is_valid(type, mesh, step.from, &reason) && is_valid(type, mesh, step.to, &reason),
          "transition: ", reason);
  if (step.axis < 0 || step.axis >= mesh.rank())
    fail(ErrorKind::layout, "transition: axis number ", step.axis, " is outside of ", print(mesh), " of ", mesh.rank(),
         " axes");
  for (int a = 0; a < mesh.rank(); ++a)
    if (a != step.axis && step.from[a] != step.to[a])
      fail(ErrorKind::layout, "transition: ", print(step.from), " -> ", print(step.to), " changes axis ",
           mesh.axes[a].name, ", but the step is on ", mesh.axes[step.axis].name);
  auto move = move_between(step.from[step.axis], step.to[step.axis]);
  if (move != step.move)
    fail(ErrorKind::layout, "transition: ", step.from[step.axis], " -> ", step.to[step.axis], " requires ",
         move ? name_of(*move) : "zero or several moves", ", not ", name_of(step.move));
  if (!boxes_nest(mesh, step.from, step.axis, step.from[step.axis], step.to[step.axis]))
    fail(ErrorKind::layout, "transition: ", print(step.from), " -> ", print(step.to),
         " changes a dimension that an axis after ", mesh.axes[step.axis].name, " also splits");
}
}  // namespace

std::string_view name_of(Move move) {
  switch (move) {
    case Move::slice: return "slice";
    case Move::to_partial: return "to_partial";
    case Move::all_gather: return "all_gather";
    case Move::all_to_all: return "all_to_all";
    case Move::reduce_scatter: return "reduce_scatter";
    case Move::all_reduce: return "all_reduce";
  }
  return "?";
}

Move move_from(std::string_view name) {
  for (Move m : moves)
    if (name_of(m) == name) return m;
  fail(ErrorKind::name, "unknown move '", name,
       "'; expected one of: ", join(moves, ", ", [](Move m) { return name_of(m); }));
}

std::optional<Move> move_between(Sbp from, Sbp to) {
  if (from == to) return {};
  switch (from.kind) {
    case Sbp::Kind::split:
      return to.is_split() ? Move::all_to_all : to.is_broadcast() ? Move::all_gather : Move::to_partial;
    case Sbp::Kind::broadcast: return to.is_split() ? Move::slice : Move::to_partial;
    case Sbp::Kind::partial: break;
  }
  if (to.is_partial()) return {};
  return to.is_split() ? Move::reduce_scatter : Move::all_reduce;
}

bool boxes_nest(const Mesh& mesh, std::span<const Sbp> layout, int axis, Sbp from, Sbp to) {
  for (int later_axis = axis + 1; later_axis < mesh.rank(); ++later_axis) {
    if (!layout[later_axis].is_split() || mesh.axes[later_axis].size == 1) continue;
    if (from.is_split(layout[later_axis].dim) || to.is_split(layout[later_axis].dim)) return false;
  }
  return true;
}

AllReduceChoice cheapest_all_reduce(int n, double bytes, double range, const LinkCost& link, double memory_bytes) {
  const bool is_recursive = uses_ring(n) && (n & (n - 1)) == 0;
  const double messages = is_recursive ? 2 * std::log2(n) : 2 * (n - 1),
               bytes_sent_by_busiest = bytes - range + (n - 1) * range;
  AllReduceChoice best{is_recursive   ? AllReduceAlgorithm::recursive
                       : uses_ring(n) ? AllReduceAlgorithm::ring
                                      : AllReduceAlgorithm::direct,
                       messages * link.alpha + bytes_sent_by_busiest * link.beta + n * range / memory_bytes};
  const double flat = link.alpha + bytes * link.beta + 2 * bytes / memory_bytes;
  if (n == 2 && flat < best.seconds) best = {AllReduceAlgorithm::flat, flat};
  return best;
}

double move_seconds(Move move, Sbp from, Sbp to, int n, std::span<const std::int64_t> shape, std::int64_t element_bytes,
                    const LinkCost& link, double memory_bytes) {
  double all = static_cast<double>(element_bytes);
  for (std::int64_t size : shape) all *= static_cast<double>(size);
  // Returns the bytes of the part of `all` that member `index` holds; the first parts are the longest.
  auto part = [&](int dim, int index) {
    std::int64_t size = shape[dim];
    return size == 0 ? 0.0 : all / static_cast<double>(size) * static_cast<double>(part_of({0, size}, n, index).size());
  };
  double messages = 0, bytes_sent_by_busiest = 0, local_bytes = 0;
  switch (move) {
    case Move::slice: break;
    case Move::to_partial:
      if (from.is_split() || to.reduce == Reduce::sum) local_bytes = all;
      break;
    case Move::all_gather:
      messages = n - 1;
      bytes_sent_by_busiest = (n - 1) * part(from.dim, 0);
      local_bytes = part(from.dim, 0);
      break;
    case Move::all_to_all: {
      messages = n - 1;
      double row_share = 1.0 / static_cast<double>(std::max<std::int64_t>(shape[to.dim], 1));
      // The parts before and after the step shrink with the position of the member. Therefore either the first member
      // or the first of the members with the shortest part after the step sends the most bytes.
      for (int i : {0, static_cast<int>(shape[to.dim] % n)}) {
        double before_bytes = part(from.dim, i);
        double kept_bytes = before_bytes * row_share * static_cast<double>(part_of({0, shape[to.dim]}, n, i).size());
        bytes_sent_by_busiest = std::max(bytes_sent_by_busiest, before_bytes - kept_bytes);
        local_bytes = std::max(local_bytes, kept_bytes);
      }
      break;
    }
    case Move::reduce_scatter:
      messages = n - 1;
      bytes_sent_by_busiest = all - part(to.dim, n - 1);
      local_bytes = n * part(to.dim, 0);
      break;
    case Move::all_reduce: {
      double elements = all / static_cast<double>(element_bytes);
      double range =
          static_cast<double>(ceil_div(static_cast<std::int64_t>(elements), n)) * static_cast<double>(element_bytes);
      return cheapest_all_reduce(n, all, range, link, memory_bytes).seconds;
    }
  }
  return messages * link.alpha + bytes_sent_by_busiest * link.beta + local_bytes / memory_bytes;
}

double seconds(const TensorType& type, const Mesh& mesh, const TransitionStep& step, const CostTable& costs) {
  require_step(type, mesh, step);
  return step_seconds(type, mesh, step, costs);
}

namespace {
// Returns the shape that the devices of the group of position 0 hold together. It is the largest of all groups, since
// first parts are the longest.
Shape shape_of_group(const TensorType& type, const Mesh& mesh, const TransitionStep& step) {
  Shape shape = type.shape;
  for (int a = 0; a < mesh.rank(); ++a)
    if (a != step.axis && step.from[a].is_split())
      shape[step.from[a].dim] = ceil_div(shape[step.from[a].dim], mesh.axes[a].size);
  return shape;
}
}  // namespace

// Up to 8 members are usually on one host, where the number of rounds determines the time. Without a ring, all pairs of
// members exchange data at the same time, which takes the fewest rounds.
bool uses_ring(int members) { return members > 8; }

AllReduceAlgorithm all_reduce_of(const TensorType& type, const Mesh& mesh, const TransitionStep& step,
                                 const CostTable& costs) {
  require_step(type, mesh, step);
  const int n = mesh.axes[step.axis].size;
  const std::int64_t elements = count_of(shape_of_group(type, mesh, step)), element_bytes = size_of(type.dtype);
  return cheapest_all_reduce(n, static_cast<double>(elements * element_bytes),
                             static_cast<double>(ceil_div(elements, n) * element_bytes),
                             costs.of_axis(mesh.axes[step.axis].name), costs.memory_bytes)
      .algorithm;
}

double step_seconds(const TensorType& type, const Mesh& mesh, const TransitionStep& step, const CostTable& costs) {
  const Shape shape = shape_of_group(type, mesh, step);
  const MeshAxis& axis = mesh.axes[step.axis];
  return move_seconds(step.move, step.from[step.axis], step.to[step.axis], axis.size, shape, size_of(type.dtype),
                      costs.of_axis(axis.name), costs.memory_bytes);
}

}  // namespace karez::sbp
