// Encodes a rank state as lines: progress, can_progress and the milliseconds of data_seconds, the current call, then
// one line per wait.
#include "karez/runtime/rank_state.h"

#include <algorithm>
#include <charconv>

#include "karez/base/text.h"

namespace karez::runtime {
namespace {

std::string one_line(std::string_view text, std::size_t max_bytes) {
  std::string out(text.substr(0, max_bytes));
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

template <class Number> Number take_number(std::string_view& line) {
  Number out{};
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), out);
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  if (!line.empty()) line.remove_prefix(1);
  return out;
}

}  // namespace

std::string RankWait::text() const {
  return rank == data ? what : cat(rank == others ? "the others" : cat("rank ", rank), ": ", what);
}

const RankWait* RankState::data_wait() const {
  for (const RankWait& wait : waits)
    if (wait.rank == RankWait::data) return &wait;
  return nullptr;
}

const RankWait* RankState::first_wait() const {
  const RankWait* wait = data_wait();
  return wait != nullptr || waits.empty() ? wait : &waits.front();
}

bool RankState::waits_for_rank() const {
  return std::any_of(waits.begin(), waits.end(), [](const RankWait& wait) { return wait.rank != RankWait::data; });
}

std::string encode(const RankState& state, std::size_t max_bytes) {
  std::string out = cat(state.progress, " ", state.can_progress ? 1 : 0, " ",
                        static_cast<std::int64_t>(state.data_seconds * 1000), "\n");
  if (out.size() < max_bytes) out += cat(one_line(state.current_call, max_bytes - out.size() - 1), "\n");
  for (const RankWait& wait : state.waits) {
    const std::string number = cat(wait.rank, " ");
    if (out.size() + number.size() + 1 > max_bytes) break;
    out += cat(number, one_line(wait.what, max_bytes - out.size() - number.size() - 1), "\n");
  }
  return out.substr(0, max_bytes);
}

RankState decode_state(std::string_view text) {
  RankState out;
  std::string_view line = take_line(text);
  out.progress = take_number<std::uint64_t>(line);
  out.can_progress = take_number<int>(line) != 0;
  out.data_seconds = static_cast<double>(take_number<std::int64_t>(line)) / 1000;
  out.current_call = take_line(text);
  while (!text.empty()) {
    line = take_line(text);
    const int rank = take_number<int>(line);
    out.waits.push_back({rank, std::string(line)});
  }
  return out;
}

}  // namespace karez::runtime
