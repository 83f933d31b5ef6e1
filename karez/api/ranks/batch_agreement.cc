// Each rank requests an op that names its element, or the end of its stream. Requests of different ops are refused on
// all ranks, and the refusal names what another rank has.
#include "karez/api/ranks/batch_agreement.h"

#include <algorithm>

#include "karez/api/namespace.h"
#include "karez/api/ranks/rank_agreement.h"
#include "karez/base/hash.h"
#include "karez/base/text.h"

namespace karez {

std::shared_ptr<WorldState> BatchAgreement::world() const {
  std::shared_ptr<WorldState> out = world_.lock();
  require(out != nullptr, "the world has ended, so its data sets cannot be read any more");
  return out;
}

int BatchAgreement::ranks() const { return world()->ranks.ranks(); }
int BatchAgreement::rank() const { return world()->ranks.rank(); }

BatchAgreement::Presence BatchAgreement::agree(std::int64_t epoch, std::int64_t number,
                                               const std::string& types) const {
  constexpr std::size_t max_types = 400;  // messages between ranks have about 1 KB
  const std::string of = cat(" of epoch ", epoch, " of data set ", stream_), end = cat("the end", of),
                    element = cat("element ", number, of);
  const std::string what = types.empty() ? end : cat(element, ", ", types.substr(0, max_types));
  const auto answer = world()->session.request_op({.hash = hash_text(types), .what = what, .is_barrier = true});
  if (std::holds_alternative<std::uint64_t>(answer)) return types.empty() ? Presence::none : Presence::all;
  const auto& refusal = std::get<runtime::Refusal>(answer);
  const bool is_other = refusal.reason == runtime::Refusal::Reason::other;
  if (is_other && (types.empty() ? refusal.text.starts_with(element) : refusal.text == end)) return Presence::some;
  const auto [first, second] = refusal.ranks;
  if (is_other && refusal.text.starts_with(element))
    throw Error(ErrorKind::shape,
                cat("ranks ", std::min(first, second), " and ", std::max(first, second), " read different elements: ",
                    what, " and ", refusal.text.substr(std::min(refusal.text.size(), element.size() + 2)),
                    "; batches of all ranks must have equal types (padded_batch with shapes pads them to the same "
                    "sizes)"));
  throw Error(ErrorKind::user, cat("rank ", first, " reads ", what, ", but rank ", second, " is at ", refusal.text,
                                   "; all ranks must read a data set together, or iterate with compare = false"));
}

std::vector<std::string> BatchAgreement::all_texts(const std::string& text) const {
  const auto state = world();
  const std::uint64_t op = agree_on_op(*state, {.hash = static_cast<std::uint64_t>(stream_),
                                                .what = cat("the positions in data set ", stream_),
                                                .advice = "all ranks must save the positions of the same iterators",
                                                .is_barrier = true});
  return state->ranks.all_texts(op, text);
}

}  // namespace karez
