// What the ranks of a world do alike: each of its ops by number, and how it ended for all of them. One rank's failure is every rank's.
//
// Every rank numbers its ops alike, because all run one program: a call, a read of what is not whole on every rank, a barrier. Notes about them go
// to rank 0, which compares, counts, and tells all:
//
//   rank r -> 0   begun op, hash, what it is    op's first difference between two ranks is a failure that names both
//   rank r -> 0   asked op, hash, what it is    would begin it, and waits: where another rank comes to something else, it is refused
//   rank r -> 0   withdrawn op                  would no longer
//   rank r -> 0   ended op                      what it set going is over on that rank
//   rank r -> 0   failed, why                   so is a link to a rank that breaks before that rank said bye
//   0 -> rank r   begun op, ended op            by all ranks
//   0 -> rank r   refused op, why               this rank alone asked for it; its next one has the same number
//   0 -> rank r   failed, why
//
// A launch is over when it has ended on all ranks, so nobody takes a result of one that failed elsewhere. Notes go on the control connections
// (peers.h), behind no data.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/local_hub.h"
#include "comm/peers.h"
#include "runtime/pace.h"

namespace karez::runtime {

// What a call is given, as each rank has it: 0 for what may differ. The last place stands for all that have no place of their own.
struct InputHashes {
  static constexpr std::size_t places = 16;
  std::array<std::uint32_t, places> of = {};
  bool operator==(const InputHashes&) const = default;
};

class Agreement {
 public:
  struct Tell {
    std::function<void(std::uint64_t op)> ended;  // on all ranks
    // Once, some rank's first error; nothing ends after it. `lost`: a rank that cannot go on, where that is why.
    std::function<void(const Error& error, std::optional<int> lost)> failed;
  };
  // Both are called on threads of its own or of whoever calls `end`, with no lock held.
  Agreement(comm::Peers& peers, Tell tell);
  ~Agreement();  // says bye; every op that began has ended, or something failed
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  // This rank begins its next op; `hash`, `what` and `inputs` are those of the others, and `sum` adds up to 0 over all ranks. Throws what has failed.
  std::uint64_t begin(std::uint64_t hash, std::string_view what, std::uint64_t sum = 0, const InputHashes& inputs = {});
  // The same for an op that one rank may come to by mistake, such as a read: it begins when all ranks have asked for it. Where another one comes to
  // something else there, this throws, the op has not begun on any rank, and nothing has failed. Where all ask for something, but not for the same,
  // those go on waiting that most ask for; of two as many, those without rank 0, which is the one that programs let do more. `meanwhile` as below;
  // where it throws, the op does not begin either, unless it has by then: the exception is dropped then.
  std::uint64_t ask(std::uint64_t hash, std::string_view what, const std::function<void()>& meanwhile = {});
  // On all ranks; throws what has failed. `meanwhile` is called some twenty times a second, and what it throws ends the wait alone.
  void await_begun(std::uint64_t op, const std::function<void()>& meanwhile = {});
  void end(std::uint64_t op, const Spent& spent = {});  // here; of a launch with what this rank has spent so far
  // Here, for all. The others hear it as an error of kind peer, with this rank's number in front, unless it is a hang or tells of a peer.
  // A peer's end alone may be the end of a longer story: rank 0 is told, and its word awaited for half a second; rank 0 waits as long for that
  // peer's.
  void fail(const Error& error, std::optional<int> lost = {});

  // Where two ranks began something else at one op: those two; -1 and 0 where all that is known is their sum. From the failure on, the same on all.
  struct Difference {
    std::uint64_t op = 0;
    int ranks[2] = {0, 0};
  };
  std::optional<Difference> difference() const;

 private:
  struct Note;
  struct Line;
  using Asked = std::pair<std::uint64_t, std::string>;        // hash, and what it is
  using Refusals = std::vector<std::pair<int, std::string>>;  // ranks, and why
  struct Op {                                                 // rank 0's
    bool known = false;
    std::uint64_t hash = 0, sum = 0;
    InputHashes inputs;
    std::string what;
    int rank = 0;  // that began it first
    int begun = 0, ended = 0;
    std::map<int, Asked> asked;  // by rank, while none has begun it
    std::vector<Spent> spent;    // by rank, of those who said so
  };

  void serve();
  void take(int rank, const Note& note);
  void take_begun(int rank, const Note& note);
  void take_asked(int rank, const Note& note);
  void take_withdrawn(int rank, const Note& note);
  static Refusals refuse_asked(Op& op, const Asked& kept, std::string_view why);
  void tell_refused(std::uint64_t op, const Refusals& refusals);
  std::optional<std::pair<Error, Difference>> count_begun(int rank, const Note& note, bool& all, Refusals& refusals);
  void all_begun(std::uint64_t op);
  void all_ended(std::uint64_t op);
  bool take_ended(int rank, const Note& note);
  void look_for_slow(const Op& op);
  void broadcast(const Note& note);
  void send(int rank, const Note& note);
  void to_first(const Note& note);
  bool fail_here(const Error& error, std::optional<int> lost, const std::optional<Difference>& difference);  // false: something had failed before
  void suspect(const Error& error);
  void await_ring();
  void throw_failure() const;
  bool hopeless(int rank) const;

  comm::Peers& peers_;
  Tell tell_;
  mutable std::mutex mutex_;  // guards what follows, but for the lines
  std::condition_variable moved_;
  std::uint64_t next_ = 1, begun_ = 0;  // begun_: the last op that all ranks have begun
  bool asking_ = false;                 // a thread is in `ask`: others begin nothing
  std::optional<std::string> refused_;  // what it asked for: why
  std::map<std::uint64_t, Op> ops_;     // rank 0's: those not ended by all
  Pace pace_;                           // likewise
  std::unique_ptr<Error> failure_;
  std::chrono::steady_clock::time_point failed_at_;
  std::optional<int> lost_;
  std::unique_ptr<Error> suspicion_;  // what fails here once rank 0 has said nothing
  std::chrono::steady_clock::time_point suspected_at_;
  std::optional<Difference> difference_;

  std::vector<std::unique_ptr<Line>> lines_;  // by rank; to rank 0, at rank 0 to all others
  std::counting_semaphore<> rung_{0};
  std::atomic<bool> stop_{false};
  std::unique_ptr<comm::LocalHub> hub_;  // goes before what its links write to and ring
  std::thread thread_;
};

}  // namespace karez::runtime
