// Where the output of ranks goes: to ours, a rank in front of each line, or as it is to a file for each rank. Never
// blocks on a reader.
#pragma once

#include <poll.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/comm/socket.h"
#include "tools/karez/line_prefixer.h"
#include "tools/karez/stderr_tail.h"
#include "tools/namespace.h"

namespace karez::tools {

// What was printed could not be written; what comes later for the same place is dropped.
struct WriteFailure {
  int number = 0;     // errno; EPIPE: nobody reads it any more
  std::string where;  // "standard output", or the path of a file
};

class RankPrinter {
 public:
  // `folder` "": to standard output and error; otherwise made if it is not there, with a file rankN.txt for each, of
  // both streams as they come.
  RankPrinter(int ranks, const std::string& folder, bool prefix);

  void print(int rank, bool error, std::string_view bytes);
  void finish_rank(int rank);  // it prints no more: the line that nothing ended goes out
  std::string stderr_tail(int rank) const { return stderr_tails_.count(rank) > 0 ? stderr_tails_.at(rank).text() : ""; }

  // What a reader has no room for is kept here. While something is, print no more than must be.
  bool blocked() const;
  bool blocked(int rank, bool error) const;        // where this goes
  void add_to(std::vector<pollfd>& polled) const;  // where it may go on, if it is blocked
  void flush_pending();                            // writes what can be written now
  void drop();                                     // forgets what is kept
  std::optional<WriteFailure> take_failure();      // each once

 private:
  struct Sink {
    int descriptor = -1;
    std::string where, pending = {};
    bool failed = false;
  };
  std::size_t place(int rank, bool error) const {
    return to_files_ ? static_cast<std::size_t>(rank) : error ? 1 : 0;
  }  // of its sink
  Sink& sink(int rank, bool error) { return sinks_[place(rank, error)]; }
  void write_to(Sink& sink, std::string_view text);
  void flush_pending(Sink& sink);

  bool to_files_, prefix_;
  std::vector<Descriptor> files_;
  std::vector<Sink> sinks_;  // by rank; without files: standard output and error
  std::map<std::pair<int, bool>, LinePrefixer> lines_;
  std::map<int, StderrTail> stderr_tails_;
  std::vector<WriteFailure> failures_;
};

}  // namespace karez::tools
