// Encodes a control message as a header, the fields that the header's flags select, and two strings.
#include "karez/control/control_message.h"

#include <algorithm>
#include <cstring>

namespace karez::control {
namespace {

enum Flag : std::uint8_t {
  has_hash = 1,
  has_sum = 2,
  has_inputs = 4,
  has_rank_time = 8,
  has_reason = 16,
  is_awaited = 32,
  is_skipped = 64,
  did_write = 128
};

struct Head {
  std::uint8_t kind = 0, flags = 0;
  std::uint16_t text_bytes = 0, where_bytes = 0, reserved = 0;
  std::uint64_t op = 0;
  std::uint32_t round = 0, unused = 0;
};

struct ErrorFields {  // fields of a failure or a refusal
  std::uint32_t error = 0, reason = 0;
  std::int32_t ranks[2] = {0, 0}, lost = -1;
};

class Writer {
 public:
  template <class T> void put(const T& value) { put(&value, sizeof value); }
  void put(std::string_view text) { put(text.data(), text.size()); }
  std::vector<std::byte> bytes;

 private:
  void put(const void* from, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), begin, begin + size);
  }
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}
  template <class T> void take(T& value) {
    if (fits(sizeof value)) std::memcpy(&value, left_.data(), sizeof value), left_ = left_.subspan(sizeof value);
  }
  void take(std::string& text, std::size_t size) {
    if (fits(size)) text.assign(reinterpret_cast<const char*>(left_.data()), size), left_ = left_.subspan(size);
  }
  bool all_read() const { return !short_ && left_.empty(); }

 private:
  bool fits(std::size_t size) {
    short_ |= left_.size() < size;
    return !short_;
  }
  std::span<const std::byte> left_;
  bool short_ = false;
};

}  // namespace

ControlMessage ControlMessage::of_failure(const base::Error& error, std::optional<int> lost) {
  ControlMessage out;
  out.kind = Kind::failed;
  out.text = error.what();
  out.where = error.where;
  out.error = static_cast<std::uint32_t>(error.kind);
  out.lost = lost.value_or(-1);
  return out;
}

ControlMessage ControlMessage::of_end(std::uint64_t op, const LaunchEnd& end) {
  ControlMessage out = end.error ? of_failure(*end.error, {}) : ControlMessage();
  out.kind = Kind::ended;
  out.op = op;
  out.has_error = end.error.has_value();
  out.skipped = end.skipped;
  out.has_written = end.has_written;
  return out;
}

LaunchEnd ControlMessage::end() const {
  return {has_error ? std::optional(failure()) : std::nullopt, skipped, has_written};
}

base::Error ControlMessage::failure() const { return {static_cast<ErrorKind>(error), text, where}; }

std::vector<std::byte> encode(const ControlMessage& message) {
  Head head;
  head.kind = static_cast<std::uint8_t>(message.kind);
  const bool inputs = message.inputs != InputHashes(),
             rank_time = message.kind == ControlMessage::Kind::ended && message.rank_time.work != 0;
  const bool reason = message.kind == ControlMessage::Kind::failed || message.kind == ControlMessage::Kind::refused ||
                      message.has_error;
  head.flags = static_cast<std::uint8_t>((message.hash != 0 ? has_hash : 0) | (message.sum != 0 ? has_sum : 0) |
                                         (inputs ? has_inputs : 0) | (rank_time ? has_rank_time : 0) |
                                         (reason ? has_reason : 0) | (message.awaited ? is_awaited : 0) |
                                         (message.skipped ? is_skipped : 0) | (message.has_written ? did_write : 0));
  const std::string_view text = std::string_view(message.text).substr(0, ControlMessage::max_text),
                         where = std::string_view(message.where).substr(0, ControlMessage::max_text / 4);
  head.text_bytes = static_cast<std::uint16_t>(text.size());
  head.where_bytes = static_cast<std::uint16_t>(where.size());
  head.op = message.op;
  head.round = message.round;
  Writer out;
  out.bytes.reserve(sizeof(Head) + sizeof(InputHashes) + text.size() + where.size() + 32);
  out.put(head);
  if (message.hash != 0) out.put(message.hash);
  if (message.sum != 0) out.put(message.sum);
  if (inputs) out.put(message.inputs);
  if (rank_time) out.put(message.rank_time);
  if (reason)
    out.put(ErrorFields{
        message.error, static_cast<std::uint32_t>(message.reason), {message.ranks[0], message.ranks[1]}, message.lost});
  out.put(text);
  out.put(where);
  return std::move(out.bytes);
}

std::optional<ControlMessage> decode_control_message(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Head head;
  in.take(head);
  ControlMessage out;
  if (head.kind < static_cast<int>(ControlMessage::Kind::begun) ||
      head.kind > static_cast<int>(ControlMessage::Kind::invalidated))
    return std::nullopt;
  out.kind = static_cast<ControlMessage::Kind>(head.kind);
  out.awaited = (head.flags & is_awaited) != 0;
  out.skipped = (head.flags & is_skipped) != 0;
  out.has_written = (head.flags & did_write) != 0;
  out.op = head.op;
  out.round = head.round;
  if (head.flags & has_hash) in.take(out.hash);
  if (head.flags & has_sum) in.take(out.sum);
  if (head.flags & has_inputs) in.take(out.inputs);
  if (head.flags & has_rank_time) in.take(out.rank_time);
  if (head.flags & has_reason) {
    ErrorFields reason;
    in.take(reason);
    if (reason.error > static_cast<std::uint32_t>(ErrorKind::data) ||
        reason.reason > static_cast<std::uint32_t>(Refusal::Reason::withdrawn))
      return std::nullopt;
    out.error = reason.error;
    out.has_error = out.kind == ControlMessage::Kind::ended;
    out.reason = static_cast<Refusal::Reason>(reason.reason);
    std::copy(reason.ranks, reason.ranks + 2, out.ranks);
    out.lost = reason.lost;
  }
  in.take(out.text, head.text_bytes);
  in.take(out.where, head.where_bytes);
  return in.all_read() ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace karez::control
