// The links on which notes go: to rank 0, and at rank 0 to every other rank.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "karez/comm/link.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/note.h"

namespace karez::runtime {

class NoteLines {
 public:
  static constexpr int depth = 32;  // messages that wait at once on a link
  using Message = std::array<std::byte, 256>;

  // Opens a link of `depth` whose other end opens it alike, and which notifies `bell`.
  using Open = std::function<std::unique_ptr<comm::Link>(int rank, comm::Notifier& notifier)>;
  // Where it holds, what cannot be sent to the rank is given up. Called with no lock held.
  using Hopeless = std::function<bool(int rank)>;

  NoteLines(int rank, int ranks, const Open& open, Hopeless hopeless);
  ~NoteLines();
  NoteLines(const NoteLines&) = delete;
  NoteLines& operator=(const NoteLines&) = delete;

  // From any thread. Waits where many messages have not left yet. To a rank that is gone nothing is said.
  void send(int rank, const Note& note);
  void send_to_all(const Note& note);
  // Until what was sent has left, at most so long.
  void flush(std::chrono::steady_clock::time_point until);

  // For the one thread that serves: `wait` returns when something may have come, or somebody called `wake`, or it is
  // `until`. Then `take` looks at the links on which something happened, and no others: rank 0 has as many as there are
  // ranks, and their notes come one by one.
  void wait(std::optional<std::chrono::steady_clock::time_point> until);
  void wake();
  void take(const std::function<void(int rank, Note note)>& come,
            const std::function<void(int rank, const Error& failure)>& failed);

 private:
  struct Line;

  void happened(int rank);
  bool take_message(Line& line, std::vector<Note>& notes);
  bool await_room(int rank, Line& line);
  void send_messages(int rank, const std::vector<Message>& messages);

  int rank_;
  Hopeless hopeless_;
  std::mutex mutex_;  // of what happened
  std::condition_variable happened_, room_;
  std::vector<int> ready_, looked_at_;  // ranks on whose links something happened
  bool woken_ = false;
  std::vector<std::unique_ptr<Line>> lines_;  // by rank
};

// A link wants messages of one size: a short note takes one, a long one several.
std::vector<NoteLines::Message> messages_of(std::span<const std::byte> note);

}  // namespace karez::runtime
