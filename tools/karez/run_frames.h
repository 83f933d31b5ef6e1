// Defines the messages between `karez run` and its agent on another host. They are sent over the standard input and
// output of ssh or its replacement.
//
// After the output of the login, the agent sends the line "karez agent 1 PORT"; PORT is a free port of its host. After
// that both sides send frames:
//
//   kind u32, number u32, bytes u32, then the bytes
//
//   to the agent     job       bytes: the job, encoded; once
//                    signal    number: the signal to send to all ranks of the host
//   from the agent   started   number: the rank, bytes: its name in messages
//                    output, errors   number: the rank, bytes: its output
//                    ended     number: the rank, bytes: the status of waitpid, in digits
//                    refused   bytes: the reason why the agent cannot start the job
//
// When its input ends, the agent kills its ranks and ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/namespace.h"

namespace karez::tools {

struct RunFrame {
  enum class Kind : std::uint32_t { job = 1, signal, started, output, errors, ended, refused };
  Kind kind = Kind::job;
  int number = 0;
  std::string bytes;

  static constexpr std::size_t header_bytes = 12, max_bytes = 1 << 24;
};
std::string encode(const RunFrame& frame);
// Removes the first frame of `bytes` if it is complete. Throws Error (kind peer) if the header is invalid.
std::optional<RunFrame> decode_frame(std::string& bytes);

std::string hello_line(int port);
// If `bytes` contains the complete first line of the agent, removes the line and the output before it, and returns the
// port. Throws if the first 64 KB contain no such line.
std::optional<int> take_hello(std::string& bytes);

// The ranks of one host.
struct RunJob {
  std::vector<std::string> words;                              // program and arguments
  std::vector<std::pair<std::string, std::string>> variables;  // for all of its ranks
  std::string folder;                                          // the working directory
  int first_rank = 0, local_ranks = 0;
  bool bind = true;
};
std::string encode(const RunJob& job);
RunJob decode_job(std::string_view bytes);  // throws Error (kind peer) if the bytes are invalid

}  // namespace karez::tools
