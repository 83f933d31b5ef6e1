// Packs the results of the setup by their lifetimes, which are counted in calls of the setup.
#include "karez/passes/lowering/constant_places.h"

#include <algorithm>
#include <climits>

#include "karez/passes/lowering/cross_actor_values.h"
#include "karez/solve/packing.h"

namespace karez::passes {
namespace {

constexpr long alignment = 64, permanent = LONG_MAX;

// The size and lifetime of a value, or of the workspace of a call.
struct Piece {
  solve::Interval lifetime;
  std::int64_t* offset;
};

// Sets the offset of each piece and returns the total size. Permanent pieces that begin before all temporary pieces do
// not share memory. They are placed without packing, since the work of packing is quadratic.
std::int64_t pack(std::vector<Piece> pieces) {
  long first_temporary = permanent;  // the time at which the first temporary piece begins
  for (const Piece& piece : pieces)
    if (piece.lifetime.end != permanent) first_temporary = std::min(first_temporary, piece.lifetime.begin);
  std::int64_t bytes = 0;
  std::vector<solve::Interval> temporary_lifetimes;
  for (const Piece& piece : pieces) {
    if (piece.lifetime.end != permanent || piece.lifetime.begin > first_temporary) {
      temporary_lifetimes.push_back(piece.lifetime);
      continue;
    }
    *piece.offset = round_up(bytes, alignment);
    bytes = *piece.offset + piece.lifetime.size;
  }
  if (temporary_lifetimes.empty()) return bytes;
  const solve::Packing packed = solve::pack(temporary_lifetimes, {.search_work = 0});
  const std::int64_t begin = round_up(bytes, alignment);
  std::size_t next = 0;
  for (const Piece& piece : pieces)
    if (piece.lifetime.end != permanent || piece.lifetime.begin > first_temporary)
      *piece.offset = begin + packed.offset[next++];
  return begin + packed.peak;
}

}  // namespace

int device_of(const LocalProgram& program, const LocalCall& call) {
  return std::max(program.values[call.out[0]].device, 0);
}

ConstantPlaces place_constants(const LocalProgram& program, int devices) {
  ConstantPlaces places;
  places.workspace.assign(program.setup.size(), 0);
  const ById<LocalId, bool> is_read_by_launches = read_by_launches(program);
  auto root = [&](LocalId v) { return program.values[v].root; };
  struct CallRange {
    int device = 0;
    long begin = 0, end = 0;  // indices of calls of the setup
  };
  std::map<LocalId, CallRange> lifetimes;  // by root
  for (std::size_t i = 0; i < program.setup.size(); ++i) {
    const long call_index = static_cast<long>(i);
    const LocalCall& call = program.setup[i];
    for (LocalId in : call.in) lifetimes.at(root(in)).end = call_index + 1;
    for (LocalId out : call.out)
      lifetimes.try_emplace(root(out), CallRange{device_of(program, call), call_index, 0}).first->second.end =
          call_index + 1;
  }
  std::vector<std::vector<Piece>> pieces(static_cast<std::size_t>(devices));
  for (const auto& [v, lifetime] : lifetimes) {
    const long bytes = std::max<long>(program.values[v].view.bytes(), 1);
    pieces[static_cast<std::size_t>(lifetime.device)].push_back(
        {{lifetime.begin, is_read_by_launches[v] ? permanent : lifetime.end, bytes, alignment}, &places.offset[v]});
  }
  for (std::size_t i = 0; i < program.setup.size(); ++i) {
    const LocalCall& call = program.setup[i];
    const long call_index = static_cast<long>(i);
    if (call.workspace > 0)
      pieces[static_cast<std::size_t>(device_of(program, call))].push_back(
          {{call_index, call_index + 1, static_cast<long>(call.workspace), alignment}, &places.workspace[i]});
  }
  for (std::vector<Piece>& device_pieces : pieces) places.bytes.push_back(pack(std::move(device_pieces)));
  return places;
}

}  // namespace karez::passes
