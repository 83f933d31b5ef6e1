// Writes the output of ranks to standard output and error, with the rank as a prefix of each line, or unchanged to one
// file per rank. A slow reader of the output never blocks this process.
#pragma once

#include <poll.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/comm/transport/socket.h"
#include "tools/karez/line_prefixer.h"
#include "tools/karez/stderr_tail.h"
#include "tools/namespace.h"

namespace karez::tools {

// Output that could not be written; later output for the same destination is dropped.
struct WriteFailure {
  int number = 0;     // errno; EPIPE: the reader has closed the destination
  std::string where;  // "standard output", or the path of a file
};

class RankPrinter {
 public:
  // If `folder` is empty, writes to standard output and error. Otherwise creates the folder if it is missing, and
  // writes one file per rank, rankN.txt, with both streams in the order of arrival.
  RankPrinter(int ranks, const std::string& folder, bool prefix);

  void print(int rank, bool error, std::string_view bytes);  // `error`: the bytes are from standard error
  void finish_rank(int rank);                                // the rank has ended: writes its unterminated line
  std::string stderr_tail(int rank) const { return stderr_tails_.count(rank) > 0 ? stderr_tails_.at(rank).text() : ""; }

  // Output that the reader does not accept yet is buffered. While `blocked`, print only if necessary.
  bool blocked() const;
  bool blocked(int rank, bool error) const;        // the destination of this stream
  void add_to(std::vector<pollfd>& polled) const;  // adds the blocked destinations
  void flush_pending();                            // writes as much as possible without blocking
  void drop();                                     // discards the buffered output
  std::optional<WriteFailure> take_failure();      // returns each failure once

 private:
  struct Sink {
    int descriptor = -1;
    std::string where, pending = {};
    bool failed = false;
  };
  // Returns the index of the sink.
  std::size_t place(int rank, bool error) const { return to_files_ ? static_cast<std::size_t>(rank) : error ? 1 : 0; }
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
