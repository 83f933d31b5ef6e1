// Writes complete lines in one call, so that lines of several processes do not mix.
#include "tools/karez/rank_printer.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "karez/base/error.h"

namespace karez::tools {

RankPrinter::RankPrinter(int ranks, const std::string& folder, bool prefix)
    : to_files_(!folder.empty()),
      prefix_(prefix) {
  if (!to_files_) {
    sinks_ = {{1, "standard output"}, {2, "standard error"}};
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(ErrorKind::data, !error, "cannot create the folder ", folder, ": ", error.message());
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = cat(folder, "/rank", rank, ".txt");
    files_.push_back(Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)));
    require(ErrorKind::data, static_cast<bool>(files_.back()), "cannot write ", path, ": ", std::strerror(errno));
    sinks_.push_back({files_.back().get(), path});
  }
}

void RankPrinter::print(int rank, bool error, std::string_view bytes) {
  if (error) stderr_tails_[rank].take(bytes);
  if (to_files_) return write_to(sink(rank, error), bytes);
  LinePrefixer& lines = lines_.try_emplace({rank, error}, prefix_ ? cat("[", rank, "] ") : "").first->second;
  write_to(sink(rank, error), lines.take(bytes));
}

void RankPrinter::finish_rank(int rank) {
  for (bool error : {false, true}) {
    auto at = lines_.find({rank, error});
    if (at != lines_.end()) write_to(sink(rank, error), at->second.rest());
  }
}

bool RankPrinter::blocked() const {
  return std::any_of(sinks_.begin(), sinks_.end(), [](const Sink& sink) { return !sink.pending.empty(); });
}

bool RankPrinter::blocked(int rank, bool error) const { return !sinks_[place(rank, error)].pending.empty(); }

void RankPrinter::add_to(std::vector<pollfd>& polled) const {
  for (const Sink& sink : sinks_)
    if (!sink.pending.empty()) polled.push_back({sink.descriptor, POLLOUT, 0});
}

void RankPrinter::flush_pending() {
  for (Sink& sink : sinks_) flush_pending(sink);
}

void RankPrinter::drop() {
  for (Sink& sink : sinks_) sink.pending.clear();
}

std::optional<WriteFailure> RankPrinter::take_failure() {
  if (failures_.empty()) return std::nullopt;
  WriteFailure first = std::move(failures_.front());
  failures_.erase(failures_.begin());
  return first;
}

void RankPrinter::write_to(Sink& sink, std::string_view text) {
  if (sink.failed || text.empty()) return;
  sink.pending += text;
  flush_pending(sink);
}

// A pipe that poll reports as writable accepts PIPE_BUF bytes without blocking. Its flags may be shared with other
// processes, so they are not changed.
void RankPrinter::flush_pending(Sink& sink) {
  std::size_t written = 0;
  while (written < sink.pending.size()) {
    pollfd ready{sink.descriptor, POLLOUT, 0};
    const int polled = poll(&ready, 1, 0);
    if (polled == 0 || (polled < 0 && errno == EINTR)) break;
    std::string_view chunk = std::string_view(sink.pending).substr(written, PIPE_BUF);
    if (const auto line_end = chunk.rfind('\n'); line_end != chunk.npos) chunk = chunk.substr(0, line_end + 1);
    const auto n = write(sink.descriptor, chunk.data(), chunk.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) {
      failures_.push_back({errno, sink.where});
      sink.failed = true;
      sink.pending.clear();
      return;
    }
    written += static_cast<std::size_t>(n);
  }
  sink.pending.erase(0, written);
}

}  // namespace karez::tools
