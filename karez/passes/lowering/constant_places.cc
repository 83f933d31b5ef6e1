// Packs the results of the set-up by their lifetimes, which are counted in its calls.
#include "karez/passes/lowering/constant_places.h"

#include <algorithm>
#include <climits>

#include "karez/passes/lowering/cross_actor_values.h"
#include "karez/solve/packing.h"

namespace karez::passes {
namespace {

constexpr long alignment = 64, for_good = LONG_MAX;

// The size and lifetime of a value, or of the workspace of a call.
struct Piece {
  solve::Interval life;
  std::int64_t* offset;
};

// Returns the total size. Permanent pieces that begin before any temporary one share bytes with no other, so they are
// placed without packing, whose work is quadratic.
std::int64_t pack(std::vector<Piece> pieces) {
  long first_end = for_good;  // the time at which the first temporary piece begins
  for (const Piece& piece : pieces)
    if (piece.life.end != for_good) first_end = std::min(first_end, piece.life.begin);
  std::int64_t bytes = 0;
  std::vector<solve::Interval> shared;
  for (const Piece& piece : pieces) {
    if (piece.life.end != for_good || piece.life.begin > first_end) {
      shared.push_back(piece.life);
      continue;
    }
    *piece.offset = round_up(bytes, alignment);
    bytes = *piece.offset + piece.life.size;
  }
  if (shared.empty()) return bytes;
  const solve::Packing packed = solve::pack(shared, {.search_work = 0});
  const std::int64_t begin = round_up(bytes, alignment);
  std::size_t next = 0;
  for (const Piece& piece : pieces)
    if (piece.life.end != for_good || piece.life.begin > first_end) *piece.offset = begin + packed.offset[next++];
  return begin + packed.peak;
}

}  // namespace

int device_of(const LocalProgram& program, const LocalCall& call) {
  return std::max(program.values[call.out[0]].device, 0);
}

ConstantPlaces place_constants(const LocalProgram& program, int devices) {
  ConstantPlaces places;
  places.workspace.assign(program.setup.size(), 0);
  const ById<LocalId, bool> read = read_by_launches(program);
  auto root = [&](LocalId v) { return program.values[v].root; };
  struct Life {
    int device = 0;
    long begin = 0, end = 0;  // calls of the set-up
  };
  std::map<LocalId, Life> lives;  // of roots
  for (std::size_t i = 0; i < program.setup.size(); ++i) {
    const long now = static_cast<long>(i);
    const LocalCall& call = program.setup[i];
    for (LocalId in : call.in) lives.at(root(in)).end = now + 1;
    for (LocalId out : call.out)
      lives.try_emplace(root(out), Life{device_of(program, call), now, 0}).first->second.end = now + 1;
  }
  std::vector<std::vector<Piece>> pieces(static_cast<std::size_t>(devices));
  for (const auto& [v, life] : lives) {
    const long bytes = std::max<long>(program.values[v].view.bytes(), 1);
    pieces[static_cast<std::size_t>(life.device)].push_back(
        {{life.begin, read[v] ? for_good : life.end, bytes, alignment}, &places.offset[v]});
  }
  for (std::size_t i = 0; i < program.setup.size(); ++i) {
    const LocalCall& call = program.setup[i];
    const long now = static_cast<long>(i);
    if (call.workspace > 0)
      pieces[static_cast<std::size_t>(device_of(program, call))].push_back(
          {{now, now + 1, static_cast<long>(call.workspace), alignment}, &places.workspace[i]});
  }
  for (std::vector<Piece>& of_device : pieces) places.bytes.push_back(pack(std::move(of_device)));
  return places;
}

}  // namespace karez::passes
