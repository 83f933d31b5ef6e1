// Notes as messages of one size, which a link wants: a short note takes one, a long one several.
#include "karez/runtime/note_lines.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "karez/base/text.h"

namespace karez::runtime {
namespace {

using Length = std::uint32_t;  // of the note, in front of it in its first message
constexpr std::size_t message_bytes = sizeof(NoteLines::Message), longest_note = 16 << 10;

}  // namespace

struct NoteLines::Line {
  comm::Notifier notifier;
  std::mutex sending;
  std::vector<Message> out{depth}, in{depth};
  std::int64_t sent = 0, taken = 0;
  std::vector<std::byte> note;       // that is coming
  std::size_t expected = 0;          // its bytes; 0: none has begun
  bool broken = false;               // nothing comes any more
  std::unique_ptr<comm::Link> link;  // last: it uses what stands before
};

NoteLines::NoteLines(int rank, int ranks, const Open& open, Hopeless hopeless)
    : rank_(rank),
      hopeless_(std::move(hopeless)),
      lines_(static_cast<std::size_t>(ranks)) {
  for (int other = 0; other < ranks; ++other) {
    if (other == rank || (other != 0 && rank != 0)) continue;
    auto line = std::make_unique<Line>();
    line->notifier.set_wake([this, other] { happened(other); });
    line->link = open(other, line->notifier);
    for (Message& message : line->in) line->link->post_receive(message.data(), message_bytes);
    lines_[static_cast<std::size_t>(other)] = std::move(line);
  }
}

NoteLines::~NoteLines() = default;

void NoteLines::happened(int rank) {
  std::lock_guard lock(mutex_);
  ready_.push_back(rank);
  happened_.notify_one();
}

void NoteLines::wake() {
  std::lock_guard lock(mutex_);
  woken_ = true;
  happened_.notify_one();
}

void NoteLines::wait(std::optional<std::chrono::steady_clock::time_point> until) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return woken_ || !ready_.empty(); };
  if (until) happened_.wait_until(lock, *until, ready);
  else happened_.wait(lock, ready);
  woken_ = false;
  looked_at_.clear();
  looked_at_.swap(ready_);
}

// False: its bytes are no note's.
bool NoteLines::take_message(Line& line, std::vector<Note>& notes) {
  const Message& message = line.in[static_cast<std::size_t>(line.taken % depth)];
  std::size_t at = 0;
  if (line.expected == 0) {
    Length length = 0;
    std::memcpy(&length, message.data(), sizeof length);
    if (length == 0 || length > longest_note) return false;
    line.expected = length;
    line.note.clear();
    at = sizeof length;
  }
  const std::size_t size = std::min(line.expected - line.note.size(), message_bytes - at);
  line.note.insert(line.note.end(), message.begin() + static_cast<std::ptrdiff_t>(at),
                   message.begin() + static_cast<std::ptrdiff_t>(at + size));
  if (line.note.size() < line.expected) return true;
  line.expected = 0;
  std::optional<Note> note = decode_note(line.note);
  if (note) notes.push_back(std::move(*note));
  return note.has_value();
}

void NoteLines::take(const std::function<void(int rank, Note note)>& come,
                     const std::function<void(int rank, const Error& failure)>& failed) {
  std::vector<Note> notes;
  for (int rank : looked_at_) {
    Line& line = *lines_[static_cast<std::size_t>(rank)];
    line.notifier.acknowledge();
    if (line.broken) continue;
    const Error* failure = line.link->failure();  // before looking: what arrived before it counts
    std::optional<Error> wrong;
    while (!wrong && line.taken < line.link->received()) {
      notes.clear();
      if (!take_message(line, notes))
        wrong.emplace(ErrorKind::peer, cat("rank ", rank, " sent something that is no note"));
      Message& message = line.in[static_cast<std::size_t>(line.taken++ % depth)];
      if (failure == nullptr) try {
          line.link->post_receive(message.data(), message_bytes);
        } catch (const Error&) {}  // it broke meanwhile: seen below, next time
      for (Note& note : notes) come(rank, std::move(note));
    }
    if (failure != nullptr && !wrong) wrong = *failure;
    if (!wrong) continue;
    line.broken = true;
    failed(rank, *wrong);
  }
  std::lock_guard lock(mutex_);  // threads that wait for room to send look again
  room_.notify_all();
}

bool NoteLines::await_room(int rank, Line& line) {
  const auto full = [&] { return line.sent - line.link->sent() >= depth; };
  while (full()) {
    if (line.link->failure() != nullptr || hopeless_(rank)) return false;
    std::unique_lock lock(mutex_);
    if (full()) room_.wait_for(lock, std::chrono::milliseconds(10));
  }
  return true;
}

void NoteLines::send(int rank, const Note& note) { send_messages(rank, messages_of(encode(note))); }

void NoteLines::send_to_all(const Note& note) {
  const std::vector<Message> messages = messages_of(encode(note));
  for (int rank = 0; rank < static_cast<int>(lines_.size()); ++rank) send_messages(rank, messages);
}

void NoteLines::send_messages(int rank, const std::vector<Message>& messages) {
  Line* line = lines_[static_cast<std::size_t>(rank)].get();
  if (line == nullptr) return;
  std::lock_guard turn(line->sending);
  for (const Message& message : messages) {
    if (!await_room(rank, *line)) return;
    Message& slot = line->out[static_cast<std::size_t>(line->sent % depth)];
    slot = message;
    try {
      line->link->send(slot.data(), message_bytes);
      ++line->sent;
    } catch (const Error&) { return; }  // the thread that serves sees it
  }
}

std::vector<NoteLines::Message> messages_of(std::span<const std::byte> note) {
  const auto length = static_cast<Length>(note.size());
  std::vector<NoteLines::Message> out((sizeof length + note.size() + message_bytes - 1) / message_bytes);
  std::memcpy(out[0].data(), &length, sizeof length);
  for (std::size_t at = 0, place = sizeof length; at < note.size();) {
    NoteLines::Message& message = out[(at + sizeof length) / message_bytes];
    const std::size_t size = std::min(note.size() - at, message_bytes - place);
    std::memcpy(message.data() + place, note.data() + at, size);
    at += size;
    place = 0;
  }
  return out;
}

void NoteLines::flush(std::chrono::steady_clock::time_point until) {
  for (int rank = 0; rank < static_cast<int>(lines_.size()); ++rank) {
    Line* line = lines_[static_cast<std::size_t>(rank)].get();
    if (line == nullptr) continue;
    const auto all_left = [&] {
      std::lock_guard turn(line->sending);
      return line->link->sent() >= line->sent;
    };
    while (line->link->failure() == nullptr && !all_left() && !hopeless_(rank) &&
           std::chrono::steady_clock::now() < until) {
      std::unique_lock lock(mutex_);
      room_.wait_for(lock, std::chrono::milliseconds(10));
    }
  }
}

}  // namespace karez::runtime
