// Encodes and decodes frames and jobs. A string is encoded as its length and its bytes.
#include "tools/karez/run_frames.h"

#include <cstring>

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::tools {
namespace {

constexpr std::string_view hello = "karez agent 1 ";
constexpr std::size_t max_before_hello = 1 << 16;

std::string word(std::uint32_t value) {
  std::string out(4, '\0');
  for (std::size_t i = 0; i < 4; ++i) out[i] = static_cast<char>(value >> (8 * i));
  return out;
}
std::uint32_t word_at(std::string_view bytes, std::size_t at) {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < 4; ++i)
    out |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return out;
}

std::string text(std::string_view bytes) { return word(static_cast<std::uint32_t>(bytes.size())) + std::string(bytes); }

// Reads the output of `word` and `text`.
struct Cursor {
  std::string_view bytes;
  std::uint32_t word() {
    require(ErrorKind::peer, bytes.size() >= 4, "the job is truncated");
    std::uint32_t out = word_at(bytes, 0);
    bytes.remove_prefix(4);
    return out;
  }
  std::string text() {
    std::uint32_t size = word();
    require(ErrorKind::peer, size <= bytes.size(), "the job is truncated: expected a string of ", size, " bytes, got ",
            bytes.size(), " bytes");
    std::string out(bytes.substr(0, size));
    bytes.remove_prefix(size);
    return out;
  }
};

}  // namespace

std::string encode(const RunFrame& frame) {
  return word(static_cast<std::uint32_t>(frame.kind)) + word(static_cast<std::uint32_t>(frame.number)) +
         text(frame.bytes);
}

std::optional<RunFrame> decode_frame(std::string& bytes) {
  if (bytes.size() < RunFrame::header_bytes) return std::nullopt;
  const std::uint32_t kind = word_at(bytes, 0), number = word_at(bytes, 4), size = word_at(bytes, 8);
  const bool is_known = kind >= static_cast<std::uint32_t>(RunFrame::Kind::job) &&
                        kind <= static_cast<std::uint32_t>(RunFrame::Kind::refused);
  require(ErrorKind::peer, is_known && number < (1u << 20) && size <= RunFrame::max_bytes, "a frame of kind ", kind,
          " with number ", number, " and ", size, " bytes is invalid");
  if (bytes.size() < RunFrame::header_bytes + size) return std::nullopt;
  RunFrame out{static_cast<RunFrame::Kind>(kind), static_cast<int>(number), bytes.substr(RunFrame::header_bytes, size)};
  bytes.erase(0, RunFrame::header_bytes + size);
  return out;
}

std::string hello_line(int port) { return cat(hello, port, "\n"); }

std::optional<int> take_hello(std::string& bytes) {
  const std::size_t at = bytes.find(hello), end = at == std::string::npos ? at : bytes.find('\n', at);
  require(ErrorKind::peer, end != std::string::npos || bytes.size() <= max_before_hello,
          "expected 'karez agent', got other output");
  if (end == std::string::npos) return std::nullopt;
  const std::string port = bytes.substr(at + hello.size(), end - at - hello.size());
  const bool is_number = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  require(ErrorKind::peer, is_number, "'", bytes.substr(at, std::min<std::size_t>(end - at, 80)), "' has no port");
  bytes.erase(0, end + 1);
  return std::stoi(port);
}

std::string encode(const RunJob& job) {
  std::string out = text(job.folder) + word(static_cast<std::uint32_t>(job.first_rank)) +
                    word(static_cast<std::uint32_t>(job.local_ranks)) + word(job.bind ? 1 : 0) +
                    word(static_cast<std::uint32_t>(job.words.size()));
  for (const std::string& word_text : job.words) out += text(word_text);
  out += word(static_cast<std::uint32_t>(job.variables.size()));
  for (const auto& [name, value] : job.variables) out += text(name) + text(value);
  return out;
}

RunJob decode_job(std::string_view bytes) {
  Cursor cursor{bytes};
  RunJob out;
  out.folder = cursor.text();
  const std::uint32_t first = cursor.word(), ranks = cursor.word();
  require(ErrorKind::peer, first < (1u << 20) && ranks >= 1 && ranks <= (1u << 20), "invalid job: ", ranks,
          " ranks from rank ", first, " on");
  out.first_rank = static_cast<int>(first);
  out.local_ranks = static_cast<int>(ranks);
  out.bind = cursor.word() != 0;
  for (std::uint32_t remaining = cursor.word(); remaining > 0; --remaining) out.words.push_back(cursor.text());
  for (std::uint32_t remaining = cursor.word(); remaining > 0; --remaining) {
    std::string name = cursor.text(), value = cursor.text();
    out.variables.emplace_back(std::move(name), std::move(value));
  }
  require(ErrorKind::peer, cursor.bytes.empty() && !out.words.empty(), "invalid job: ", out.words.size(), " words and ",
          cursor.bytes.size(), " bytes after the end");
  return out;
}

}  // namespace karez::tools
