// Ops of the agreement whose difference is explained by texts, which go through the store where the ranks met.
#include "api/inside/agree.h"

#include <algorithm>
#include <map>

#include "api/inside/rooms.h"
#include "base/text.h"
#include "runtime/links.h"

namespace karez {

void agree_on_program(WorldState& world, std::uint64_t hash, const std::string& who, const std::function<std::string()>& text) {
  if (world.ranks.alone()) return;
  const std::uint64_t op = world.session.begin_op(hash, who);
  try {
    world.session.end_op(op);
    world.session.await_op(op);
  } catch (const Error& error) {
    const auto differing = world.session.differing_ranks(op);
    const std::string_view said = error.what();
    if (!differing || said.find(who) == said.rfind(who)) throw;  // not both of them are here
    throw Error(error.kind, cat(said, "\n", world.ranks.first_difference(op, *differing, text())), error.where);
  }
}

void agree_on_links(WorldState& world, const Plan& plan, const std::string& who) {
  if (world.ranks.alone()) return;
  std::vector<runtime::Exchange> exchanges = world.session.exchanges(plan);
  const std::uint64_t op = world.session.begin_op(hash_text(who), who, runtime::sum_of(world.ranks.rank(), exchanges));
  try {
    world.session.end_op(op);
    world.session.await_op(op);
  } catch (const Error& error) {
    const auto differing = world.session.differing_ranks(op);
    if (!differing || differing->first >= 0) throw;
    std::sort(exchanges.begin(), exchanges.end(), [](const auto& a, const auto& b) { return a.text < b.text; });
    std::map<int, std::string> by_rank;
    for (const runtime::Exchange& one : exchanges) by_rank[one.rank] += one.text;
    throw Error(error.kind, cat(error.what(), "\n", world.ranks.unfit_links(op, by_rank)), error.where);
  }
}

}  // namespace karez
