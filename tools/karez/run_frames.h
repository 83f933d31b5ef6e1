// What `karez run` and its agent on another host say to each other, over the input and output of ssh or of what stands
// for it.
//
// The agent begins with a line, "karez agent 1 PORT", behind whatever the login prints; PORT is free there. From then
// on both send frames:
//
//   kind u32, number u32, bytes u32, then the bytes
//
//   to the agent     job       its text (JobText); once
//                    signal    number: to all its ranks
//   from the agent   started   number: the rank, bytes: its name for people
//                    output, errors   number: the rank, bytes: what it printed
//                    ended     number: the rank, bytes: the status of waitpid, in digits
//                    refused   bytes: why it cannot do the job
//
// Where the agent's input ends, it kills its ranks and ends.
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

  static constexpr std::size_t header_bytes = 12, most_bytes = 1 << 24;
};
std::string encode(const RunFrame& frame);
// Takes a frame from the front of `bytes`, if a whole one is there. Throws Error (kind peer) on what is none.
std::optional<RunFrame> decode_frame(std::string& bytes);

std::string hello_line(int port);
// Takes the line and what stands before it from the front of `bytes`: the port, once it is there. Throws after so many
// bytes without it.
std::optional<int> take_hello(std::string& bytes);

// The ranks of one host.
struct RunJob {
  std::vector<std::string> words;                              // program and arguments
  std::vector<std::pair<std::string, std::string>> variables;  // for all of its ranks
  std::string folder;                                          // to start in
  int first_rank = 0, local_ranks = 0;
  bool bind = true;
};
std::string encode(const RunJob& job);
RunJob decode_job(std::string_view text);  // throws Error (kind peer) on what is none

}  // namespace karez::tools
