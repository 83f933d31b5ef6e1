// Notes between rank 0 and the others, on a link of their own to each.
#include "runtime/agreement.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/prompt.h"

namespace karez::runtime {
namespace {
constexpr int depth = 32;
constexpr std::chrono::seconds most_farewell{10};  // to one that takes nothing any more
enum class Kind : std::uint32_t { begun = 1, ended, failed, bye, asked, withdrawn, refused };
}  // namespace

// One message. Its text is cut where it is too long.
struct Agreement::Note {
  static constexpr std::size_t most_text = 884;
  Kind kind = Kind::begun;
  std::uint32_t error = 0;  // failed: its kind
  std::uint64_t op = 0, hash = 0, sum = 0;
  std::uint32_t ranks[2] = {0, 0};  // failed: that differ at `op`, where that is why
  std::int32_t lost = -1;           // failed: a rank that cannot go on, where that is why
  Spent spent;                      // ended: of a launch
  InputHashes inputs;               // begun
  std::uint32_t text_bytes = 0, where_bytes = 0;
  char text[most_text] = {};  // and behind it the line

  static Note of(Kind kind, std::uint64_t op, std::uint64_t hash = 0, std::string_view text = {}, std::string_view where = {}) {
    Note out;
    out.kind = kind;
    out.op = op;
    out.hash = hash;
    const std::string_view line = where.substr(0, most_text / 4), said = text.substr(0, most_text - line.size());
    out.text_bytes = static_cast<std::uint32_t>(said.size());
    out.where_bytes = static_cast<std::uint32_t>(line.size());
    said.copy(out.text, said.size());
    line.copy(out.text + said.size(), line.size());
    return out;
  }
  std::string said() const { return {text, std::min<std::size_t>(text_bytes, most_text)}; }
  static Note of_failure(const Error& error, std::optional<int> lost) {
    Note out = of(Kind::failed, 0, 0, error.what(), error.where);
    out.error = static_cast<std::uint32_t>(error.kind);
    out.lost = lost.value_or(-1);
    return out;
  }
  Error failure() const {
    const std::size_t begin = std::min<std::size_t>(text_bytes, most_text), size = std::min<std::size_t>(where_bytes, most_text - begin);
    return {static_cast<ErrorKind>(error), said(), std::string(text + begin, size)};
  }
};

// A link to another rank with its messages: a ring of those that leave and one of those that come.
struct Agreement::Line {
  comm::Link* link = nullptr;
  std::mutex mutex;  // of those who send
  std::vector<Note> out, in;
  std::int64_t sent = 0, taken = 0;
  bool bye = false, broken = false;  // it said so; nothing comes any more
};

Agreement::Agreement(comm::Peers& peers, Tell tell)
    : peers_(peers),
      tell_(std::move(tell)),
      pace_(peers.ranks()),
      lines_(static_cast<std::size_t>(peers.ranks())) {
  hub_ = std::make_unique<comm::LocalHub>(peers.ranks(), std::vector<int>{peers.rank()}, depth);
  comm::Endpoint& endpoint = hub_->endpoint(peers.rank());
  endpoint.set_wake([this] { rung_.release(); });
  for (int rank = 0; rank < peers.ranks(); ++rank) {
    if (rank == peers.rank() || (rank != 0 && peers.rank() != 0)) continue;
    auto line = std::make_unique<Line>();
    line->out.resize(depth);
    line->in.resize(depth);
    endpoint.connect(rank, peers.control(rank).open(base::hash_text("agreement"), depth, endpoint.bell()));
    line->link = &endpoint.link(rank);
    for (Note& note : line->in) line->link->post_receive(reinterpret_cast<std::byte*>(&note), sizeof(Note));
    lines_[static_cast<std::size_t>(rank)] = std::move(line);
  }
  thread_ = std::thread([this] { serve(); });
}

Agreement::~Agreement() {
  const Note bye = Note::of(Kind::bye, 0);
  for (int rank = 0; rank < static_cast<int>(lines_.size()); ++rank)
    if (lines_[static_cast<std::size_t>(rank)]) send(rank, bye);
  const auto until = std::chrono::steady_clock::now() + most_farewell;
  for (auto& line : lines_) {  // what was said is to arrive
    if (!line) continue;
    std::unique_lock lock(mutex_);
    const int rank = static_cast<int>(&line - lines_.data());
    while (line->link->failure() == nullptr && line->link->sent() < line->sent && !hopeless(rank) && std::chrono::steady_clock::now() < until)
      moved_.wait_for(lock, std::chrono::milliseconds(10));
  }
  stop_ = true;
  rung_.release();
  thread_.join();
}

void Agreement::throw_failure() const {
  if (failure_ != nullptr) throw Error(*failure_);
}

// Whoever is lost takes no more notes; after a failure the others have a second to take theirs. With the lock.
bool Agreement::hopeless(int rank) const {
  return failure_ != nullptr && (rank == lost_ || std::chrono::steady_clock::now() > failed_at_ + std::chrono::seconds(1));
}

std::optional<Agreement::Difference> Agreement::difference() const {
  std::lock_guard lock(mutex_);
  return difference_;
}

// --- what this rank does --------------------------------------------------------------------------------------------------------

std::uint64_t Agreement::begin(std::uint64_t hash, std::string_view what, std::uint64_t sum, const InputHashes& inputs) {
  Note note;
  {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return !asking_ || failure_ != nullptr; });
    note = Note::of(Kind::begun, next_++, hash, what);
    note.sum = sum;
    note.inputs = inputs;
    if (difference_ && difference_->op == note.op) return note.op;  // whoever awaits it hears what two others began
    throw_failure();
  }
  to_first(note);
  return note.op;
}

std::uint64_t Agreement::ask(std::uint64_t hash, std::string_view what, const std::function<void()>& meanwhile) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return !asking_ || failure_ != nullptr; });
  throw_failure();
  asking_ = true;
  refused_.reset();
  const std::uint64_t op = next_++;
  lock.unlock();
  to_first(Note::of(Kind::asked, op, hash, what));
  std::exception_ptr thrown;
  lock.lock();
  while (!moved_.wait_for(lock, std::chrono::milliseconds(50), [&] { return failure_ != nullptr || begun_ >= op || refused_; })) {
    if (!meanwhile || thrown != nullptr) continue;
    lock.unlock();
    try {
      meanwhile();
    } catch (...) {
      thrown = std::current_exception();
      to_first(Note::of(Kind::withdrawn, op));
    }
    lock.lock();
  }
  asking_ = false;
  if (refused_) next_ = op;
  moved_.notify_all();
  throw_failure();
  if (!refused_) return op;
  if (thrown != nullptr) std::rethrow_exception(thrown);
  throw Error(cat(what, " takes all ranks, but ", *refused_, "; it was not begun on any rank, and all of them can go on"));
}

void Agreement::await_begun(std::uint64_t op, const std::function<void()>& meanwhile) {
  std::unique_lock lock(mutex_);
  while (!moved_.wait_for(lock, std::chrono::milliseconds(50), [&] { return failure_ != nullptr || begun_ >= op; })) {
    if (!meanwhile) continue;
    lock.unlock();
    meanwhile();
    lock.lock();
  }
  throw_failure();
}

void Agreement::end(std::uint64_t op, const Spent& spent) {
  Note note = Note::of(Kind::ended, op);
  note.spent = spent;
  to_first(note);
}

namespace {

// A rank's own failure as the others hear it: a peer of theirs has failed, however that one did.
Error as_heard(int rank, const Error& error) {
  if (error.kind == ErrorKind::peer || error.kind == ErrorKind::hang) return error;
  return {ErrorKind::peer, cat("rank ", rank, ": ", error.what()), error.where};
}

}  // namespace

void Agreement::fail(const Error& error, std::optional<int> lost) {
  if (error.kind == ErrorKind::peer && !lost) return suspect(error);
  if (!fail_here(error, lost, {})) return;  // which all hear of
  if (peers_.rank() == 0) broadcast(Note::of_failure(as_heard(0, error), lost));
  else send(0, Note::of_failure(error, lost));
}

void Agreement::suspect(const Error& error) {
  {
    std::lock_guard lock(mutex_);
    if (failure_ != nullptr || suspicion_ != nullptr) return;
    suspicion_ = std::make_unique<Error>(error);
    suspected_at_ = std::chrono::steady_clock::now();
  }
  if (peers_.rank() != 0) send(0, Note::of_failure(error, {}));
  rung_.release();
}

// By the thread that serves: until something rings, or a suspicion is old enough.
void Agreement::await_ring() {
  std::optional<Error> fails;
  {
    std::unique_lock lock(mutex_);
    const bool suspects = suspicion_ != nullptr && failure_ == nullptr;
    const auto until = suspected_at_ + std::chrono::milliseconds(500);
    lock.unlock();
    if (!suspects) return rung_.acquire();
    if (rung_.try_acquire_until(until)) return;
    lock.lock();
    fails = *suspicion_;
  }
  if (fail_here(*fails, {}, {}) && peers_.rank() == 0) broadcast(Note::of_failure(as_heard(0, *fails), {}));
}

void Agreement::to_first(const Note& note) {
  if (peers_.rank() == 0) take(0, note);
  else send(0, note);
}

bool Agreement::fail_here(const Error& error, std::optional<int> lost, const std::optional<Difference>& difference) {
  {
    std::lock_guard lock(mutex_);
    if (failure_ != nullptr) return false;
    failure_ = std::make_unique<Error>(error);
    failed_at_ = std::chrono::steady_clock::now();
    lost_ = lost;
    difference_ = difference;
    moved_.notify_all();
  }
  tell_.failed(error, lost);
  return true;
}

// --- what others say ------------------------------------------------------------------------------------------------------------

void Agreement::serve() {
  comm::ask_for_short_turns();
  comm::Endpoint& endpoint = hub_->endpoint(peers_.rank());
  while (!stop_) {
    await_ring();
    endpoint.bell().answer();
    for (int rank = 0; rank < static_cast<int>(lines_.size()); ++rank) {
      Line* line = lines_[static_cast<std::size_t>(rank)].get();
      if (line == nullptr || line->broken) continue;
      const Error* failure = line->link->failure();  // before looking: what arrived before it counts
      while (line->taken < line->link->received()) {
        Note& slot = line->in[static_cast<std::size_t>(line->taken++ % depth)];
        const Note note = slot;
        if (failure == nullptr) try {
            line->link->post_receive(reinterpret_cast<std::byte*>(&slot), sizeof(Note));
          } catch (const Error&) {}  // it broke meanwhile: seen below, next time
        take(rank, note);
      }
      if (failure == nullptr) continue;
      line->broken = true;
      if (!line->bye) fail(*failure, rank);
    }
    std::lock_guard lock(mutex_);  // who waits for room to send looks again
    moved_.notify_all();
  }
}

void Agreement::take(int rank, const Note& note) {
  switch (note.kind) {
    case Kind::begun: return peers_.rank() == 0 ? take_begun(rank, note) : all_begun(note.op);
    case Kind::ended: {
      if (peers_.rank() != 0) return tell_.ended(note.op);
      if (take_ended(rank, note)) all_ended(note.op);
      return;
    }
    case Kind::failed: {
      std::optional<Difference> difference;
      if (note.ranks[0] != note.ranks[1]) difference = {note.op, {static_cast<int>(note.ranks[0]), static_cast<int>(note.ranks[1])}};
      const Error error = peers_.rank() == 0 ? as_heard(rank, note.failure()) : note.failure();
      const bool known = note.lost >= 0 && note.lost < peers_.ranks();
      const std::optional<int> lost = known ? std::optional<int>(note.lost) : std::nullopt;
      if (peers_.rank() == 0 && note.failure().kind == ErrorKind::peer && !lost && !difference) return suspect(error);
      if (!fail_here(error, lost, difference) || peers_.rank() != 0) return;
      Note told = Note::of_failure(error, lost);
      told.op = note.op;
      return broadcast(told);
    }
    case Kind::bye: lines_[static_cast<std::size_t>(rank)]->bye = true; return;
    case Kind::asked: return take_asked(rank, note);
    case Kind::withdrawn: return take_withdrawn(rank, note);
    case Kind::refused: {
      std::lock_guard lock(mutex_);
      refused_ = note.said();
      moved_.notify_all();
      return;
    }
  }
}

// At rank 0: whether all have ended it, and nothing has failed.
bool Agreement::take_ended(int rank, const Note& note) {
  std::lock_guard lock(mutex_);
  Op& op = ops_[note.op];
  op.spent.resize(static_cast<std::size_t>(peers_.ranks()));
  op.spent[static_cast<std::size_t>(rank)] = note.spent;
  if (++op.ended < peers_.ranks()) return false;
  const bool well = failure_ == nullptr;
  if (well) look_for_slow(op);
  ops_.erase(note.op);
  return well;
}

// A launch in which every rank had something to do.
void Agreement::look_for_slow(const Op& op) {
  if (std::any_of(op.spent.begin(), op.spent.end(), [](const Spent& spent) { return spent.work == 0; })) return;
  for (const SlowRank& slow : pace_.launch(op.spent)) {
    auto milliseconds = [](double seconds) { return cat(std::round(seconds * 1e4) / 10, " ms"); };
    note(base::LogLevel::warning, peers_.name(slow.rank), " is slow: its ", name_of(slow.phase), " took ", milliseconds(slow.seconds),
         " in each of the last ", Pace::in_a_row, " launches, those of the others ", milliseconds(slow.others));
  }
}

namespace {

// The first that differs.
std::string name_of_input(const InputHashes& a, const InputHashes& b) {
  const auto at = static_cast<std::size_t>(std::mismatch(a.of.begin(), a.of.end(), b.of.begin()).first - a.of.begin());
  return at + 1 < InputHashes::places ? cat("arg", at) : cat("arg", at, " or a later one, or a number that the program sets between calls");
}

}  // namespace

// At rank 0: whether all have begun it now, what is wrong with that, and who asked for something else.
std::optional<std::pair<Error, Agreement::Difference>> Agreement::count_begun(int rank, const Note& note, bool& all, Refusals& refusals) {
  std::lock_guard lock(mutex_);
  Op& op = ops_[note.op];
  refusals = refuse_asked(op, {}, cat("rank ", rank, " comes to ", note.said()));
  if (!op.known) {
    op.known = true;
    op.hash = note.hash;
    op.what = note.said();
    op.inputs = note.inputs;
    op.rank = rank;
  }
  if (op.hash != note.hash || op.what != note.said()) {
    const bool swap = rank < op.rank;
    const int low = std::min(rank, op.rank), high = std::max(rank, op.rank);
    return std::pair(Error(ErrorKind::peer, cat("the ranks do not run the same program: rank ", low, " comes to ", swap ? note.said() : op.what,
                                                ", where rank ", high, " comes to ", swap ? op.what : note.said())),
                     Difference{note.op, {low, high}});
  }
  if (op.inputs != note.inputs) {
    const int low = std::min(rank, op.rank), high = std::max(rank, op.rank);
    return std::pair(
        Error(ErrorKind::peer, cat(op.what, ": ranks ", low, " and ", high, " give it different arguments: ", name_of_input(op.inputs, note.inputs),
                                   "; an array is the whole on every rank, unless ", "local(array) says that it is this rank's part")),
        Difference{note.op, {low, high}});
  }
  op.sum += note.sum;
  all = ++op.begun == peers_.ranks();
  if (!all || op.sum == 0) return std::nullopt;
  return std::pair(Error(ErrorKind::peer, cat(op.what, " do not fit together: two ranks disagree about what they send each other")),
                   Difference{note.op, {-1, 0}});
}

// At rank 0, with the lock: those who asked for something else than `kept` hear why it does not begin, and it is as if they had not.
Agreement::Refusals Agreement::refuse_asked(Op& op, const Asked& kept, std::string_view why) {
  Refusals out;
  for (const auto& [rank, asked] : op.asked)
    if (asked != kept) out.emplace_back(rank, why);
  std::erase_if(op.asked, [&](const auto& one) { return one.second != kept; });
  return out;
}

void Agreement::tell_refused(std::uint64_t op, const Refusals& refusals) {
  for (const auto& [rank, why] : refusals) {
    const Note told = Note::of(Kind::refused, op, 0, why);
    if (rank == 0) take(0, told);
    else send(rank, told);
  }
}

void Agreement::take_asked(int rank, const Note& note) {
  Refusals refusals;
  bool all = false;
  {
    std::lock_guard lock(mutex_);
    Op& op = ops_[note.op];
    if (op.known) {
      refusals.emplace_back(rank, cat("rank ", op.rank, " comes to ", op.what));
    } else {
      op.asked[rank] = {note.hash, note.said()};
      if (static_cast<int>(op.asked.size()) == peers_.ranks()) {
        std::map<Asked, std::vector<int>> groups;  // ranks in ascending order
        for (const auto& [who, asked] : op.asked) groups[asked].push_back(who);
        const auto kept = std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
          return std::pair(a.second.size(), a.second[0] != 0) < std::pair(b.second.size(), b.second[0] != 0);
        });
        refusals = refuse_asked(op, kept->first, cat("rank ", kept->second[0], " comes to ", kept->first.second));
        all = refusals.empty();
        if (all) op.asked.clear();
      }
    }
  }
  tell_refused(note.op, refusals);
  if (all) all_begun(note.op);
}

void Agreement::take_withdrawn(int rank, const Note& note) {
  {
    std::lock_guard lock(mutex_);
    const auto op = ops_.find(note.op);
    if (op == ops_.end() || op->second.asked.erase(rank) == 0) return;  // it has been answered
  }
  tell_refused(note.op, {{rank, "it was withdrawn"}});
}

void Agreement::take_begun(int rank, const Note& note) {
  Refusals refusals;
  bool all = false;
  const auto wrong = count_begun(rank, note, all, refusals);
  tell_refused(note.op, refusals);
  if (!wrong) return all ? all_begun(note.op) : void();
  const auto& [error, difference] = *wrong;
  Note told = Note::of_failure(error, {});
  told.op = note.op;
  for (int i : {0, 1}) told.ranks[i] = static_cast<std::uint32_t>(difference.ranks[i]);
  if (fail_here(error, {}, difference)) broadcast(told);
}

void Agreement::all_begun(std::uint64_t op) {
  {
    std::lock_guard lock(mutex_);
    begun_ = std::max(begun_, op);
    moved_.notify_all();
  }
  if (peers_.rank() == 0) broadcast(Note::of(Kind::begun, op));
}

void Agreement::all_ended(std::uint64_t op) {
  broadcast(Note::of(Kind::ended, op));
  tell_.ended(op);
}

void Agreement::broadcast(const Note& note) {
  for (int rank = 1; rank < static_cast<int>(lines_.size()); ++rank)
    if (lines_[static_cast<std::size_t>(rank)]) send(rank, note);
}

// Waits where many messages have not left yet. To one who is gone nothing is said.
void Agreement::send(int rank, const Note& note) {
  Line& line = *lines_[static_cast<std::size_t>(rank)];
  std::lock_guard turn(line.mutex);
  {
    std::unique_lock lock(mutex_);
    auto full = [&] { return line.sent - line.link->sent() >= depth; };
    while (line.link->failure() == nullptr && full() && !hopeless(rank)) moved_.wait_for(lock, std::chrono::milliseconds(10));
    if (full()) return;
  }
  Note& slot = line.out[static_cast<std::size_t>(line.sent % depth)];
  slot = note;
  try {
    line.link->send(reinterpret_cast<const std::byte*>(&slot), sizeof(Note));
    ++line.sent;
  } catch (const Error&) {}  // whoever serves sees it
}

}  // namespace karez::runtime
