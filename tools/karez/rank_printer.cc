// Whole lines in one call, so that those of several processes do not mix.
#include "tools/karez/rank_printer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace karez::tools {

RankPrinter::RankPrinter(int ranks, const std::string& folder, bool prefix) : folder_(folder), prefix_(prefix) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(ErrorKind::data, !error, "cannot make the folder ", folder, ": ", error.message());
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = cat(folder, "/rank", rank, ".txt");
    files_[rank] = Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    require(ErrorKind::data, static_cast<bool>(files_[rank]), "cannot write ", path, ": ", std::strerror(errno));
  }
}

bool RankPrinter::print(int rank, bool error, std::string_view bytes) {
  if (error) words_[rank].take(bytes);
  if (!folder_.empty()) return write_to(files_.at(rank).get(), bytes);
  Lines& lines = lines_.try_emplace({rank, error}, prefix_ ? cat("[", rank, "] ") : "").first->second;
  return write_to(error ? 2 : 1, lines.take(bytes));
}

bool RankPrinter::over(int rank) {
  bool good = true;
  for (bool error : {false, true}) {
    auto at = lines_.find({rank, error});
    if (at != lines_.end()) good = write_to(error ? 2 : 1, at->second.rest()) && good;
  }
  return good;
}

bool RankPrinter::write_to(int descriptor, std::string_view text) {
  while (!text.empty()) {
    auto n = write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace karez::tools
