// Implements the checks: the ranks compare hashes in an op of the session. If two ranks differ, they exchange texts
// through the rendezvous store to find the difference.
#include "karez/api/ranks/rank_agreement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "karez/api/namespace.h"
#include "karez/base/hash.h"
#include "karez/base/scanner.h"
#include "karez/base/text.h"
#include "karez/base/xxhash.h"
#include "karez/data/stages/batch_rows.h"
#include "karez/runtime/load/links.h"

namespace karez {

namespace {

// Begins an op and waits for all ranks. If two ranks began it with different hashes, or if the sum over all ranks is
// wrong, throws an error with the message that `explain` returns.
void agree(
    WorldState& world, std::uint64_t hash, std::uint64_t sum, const std::string& subject,
    const std::function<std::string(std::string_view message, std::uint64_t op, std::pair<int, int> ranks)>& explain) {
  const std::uint64_t op = world.session.begin_op({.hash = hash, .what = subject, .sum = sum, .is_barrier = true});
  try {
    world.session.await_op(op);
  } catch (const Error& error) {
    const auto differing = world.session.differing_ranks(op);
    const std::string_view message = error.what();
    if (!differing || (differing->first >= 0 && message.find(subject) == message.rfind(subject)))
      throw;  // one of the two ranks is at a different op
    throw Error(error.kind, explain(message, op, *differing), error.where);
  }
}

std::span<const std::byte> bytes_of(const HostArray& array) {
  return {array.bytes(), static_cast<std::size_t>(array.type().bytes())};
}
std::uint64_t hash_of(const HostArray& array) { return hash_bytes(bytes_of(array)); }

constexpr std::size_t cache_line = 64, sampled_lines = 64;

// Returns a hash of `lines` random cache lines, or of all bytes if the array has at most that many lines. The last line
// of an array may be incomplete; the last 64 bytes of the array are used in its place.
std::uint64_t sampled_hash(const HostArray& array, std::uint64_t draw, std::size_t lines) {
  const auto bytes = bytes_of(array);
  if (bytes.size() <= cache_line * lines) return hash_bytes(bytes);
  std::array<std::byte, cache_line * sampled_lines> sample;
  for (std::size_t line = 0; line < lines; ++line) {
    const std::uint64_t index =
        base::Hash().add(draw).add(static_cast<std::uint64_t>(line)).value() % (bytes.size() / cache_line + 1);
    std::memcpy(&sample[line * cache_line], &bytes[std::min(index * cache_line, bytes.size() - cache_line)],
                cache_line);
  }
  return hash_bytes(std::span(sample).first(lines * cache_line));
}

std::string describe(const Argument& argument) {
  if (argument.on_mesh.valid()) return "an array on a mesh";
  if (!argument.array.valid())
    return cat("batch ", argument.feed.position, " of a source of ", argument.feed.source->type());
  if (argument.part) return cat("a part of ", argument.feed.source->type());
  if (argument.batch_rows != nullptr)  // each rank has other rows
    return cat(argument.array.type(), ", rows from ", argument.batch_rows->origin().first, " of epoch ",
               argument.batch_rows->origin().epoch, " of a data set");
  return cat(argument.array.type(), " with the hash ", hash_of(argument.array));
}

}  // namespace

void agree_on_program(WorldState& world, std::uint64_t hash, const std::string& subject,
                      const std::function<std::string()>& text) {
  if (world.ranks.alone()) return;
  agree(world, hash, 0, subject, [&](std::string_view message, std::uint64_t op, std::pair<int, int> ranks) {
    return cat(message, "\n", world.ranks.first_difference(op, ranks, text()));
  });
}

std::uint64_t agree_on_op(WorldState& world, const OpRequest& request) {
  if (world.ranks.alone()) return 0;
  const std::string line = request.where ? karez::print(*request.where) : std::string(),
                    what = line.empty() ? request.what : cat(request.what, " (", line, ")");
  const auto answer = world.session.request_op({.hash = request.hash, .what = what, .is_barrier = request.is_barrier});
  if (const std::uint64_t* op = std::get_if<std::uint64_t>(&answer)) return *op;
  using Reason = runtime::Refusal::Reason;
  const auto& refusal = std::get<runtime::Refusal>(answer);
  const std::string refused = ": every rank that requested it gets this error, and all may continue; ";
  const auto [requesting_rank, other_rank] = refusal.ranks;
  if (refusal.reason == Reason::other && refusal.text == what)
    throw Error(ErrorKind::user,
                cat("ranks ", std::min(requesting_rank, other_rank), " and ", std::max(requesting_rank, other_rank),
                    " differ in ", what, refused, request.advice),
                line);
  throw Error(ErrorKind::user,
              cat("rank ", requesting_rank, " requests ", what, ", but rank ", other_rank, " is at ", refusal.text,
                  refused, request.advice),
              line);
}

void agree_on_value(WorldState& world, const HostArray& value, const std::string& what) {
  agree_on_op(world, {.hash = world.ranks.alone() ? 0 : hash_of(value),
                      .what = what,
                      .advice = "all ranks must write the complete value, with equal bytes",
                      .is_barrier = true});
}

std::int64_t agree_on_maximum(WorldState& world, std::int64_t number, const std::string& what) {
  if (world.ranks.alone()) return number;
  const std::uint64_t op = agree_on_op(world, {.hash = hash_text(what),
                                               .what = what,
                                               .advice = "all ranks must call the same functions in the same order",
                                               .is_barrier = true});
  std::int64_t largest = number;
  for (const std::string& text : world.ranks.all_texts(op, cat(number)))
    largest = std::max(largest, base::Scanner(text, "a number of another rank").integer());
  return largest;
}

void agree_on_reset(WorldState& world) {
  if (world.ranks.alone()) return;
  agree(world, 0, 0, "a reset of the world",
        [](std::string_view message, std::uint64_t, std::pair<int, int>) { return std::string(message); });
}

void agree_on_inputs(WorldState& world, const std::string& call, int number, const CallInputs& inputs) {
  std::string lines;
  for (std::size_t i = 0; i < inputs.arguments.size(); ++i)
    lines += cat("arg", i, ": ", describe(inputs.arguments[i]), "\n");
  for (const auto& [name, value] : inputs.numbers) lines += cat(name, ": ", value, "\n");
  agree(world, hash_text(lines), 0, call, [&](std::string_view, std::uint64_t op, std::pair<int, int> ranks) {
    return cat(call, ", call number ", number, ": ranks ", ranks.first, " and ", ranks.second,
               " pass different arguments\n", world.ranks.first_difference(op, ranks, lines),
               "\nan array must be complete on every rank, unless local(array) marks it as this rank's part");
  });
}

runtime::InputHashes sampled_hashes(const CallInputs& inputs, std::uint64_t draw) {
  runtime::InputHashes out;
  const std::size_t count = inputs.arguments.size(), last = runtime::InputHashes::capacity - 1;
  const std::size_t lines = std::max<std::size_t>(1, sampled_lines / std::max<std::size_t>(1, count));
  Hash last_hash;  // of the numbers, and of the arguments for which there is no separate hash
  for (std::size_t i = 0; i < count; ++i) {
    const Argument& argument = inputs.arguments[i];
    const bool is_global_array = !argument.on_mesh.valid() && argument.array.valid() && !argument.part;
    const std::uint64_t hash = !is_global_array                 ? 0
                               : argument.batch_rows != nullptr ? hash_text(describe(argument))
                                                                : sampled_hash(argument.array, draw + i, lines);
    if (i < last) out.values[i] = static_cast<std::uint32_t>(hash ^ hash >> 32);
    else last_hash.add(hash);
  }
  for (const auto& [name, value] : inputs.numbers) last_hash.add(value);
  out.values[last] = static_cast<std::uint32_t>(last_hash.value());
  return out;
}

void agree_on_links(WorldState& world, const Plan& plan, const std::string& subject) {
  if (world.ranks.alone()) return;
  std::vector<runtime::Exchange> exchanges = world.session.exchanges(plan);
  agree(world, hash_text(subject), runtime::sum_of(world.ranks.rank(), exchanges), subject,
        [&](std::string_view message, std::uint64_t op, std::pair<int, int> ranks) {
          if (ranks.first >= 0) return std::string(message);
          std::sort(exchanges.begin(), exchanges.end(), [](const auto& a, const auto& b) { return a.text < b.text; });
          std::map<int, std::string> lines_by_rank;
          for (const runtime::Exchange& exchange : exchanges) lines_by_rank[exchange.rank] += exchange.text;
          return cat(message, "\n", world.ranks.link_mismatch(op, lines_by_rank));
        });
}

}  // namespace karez
