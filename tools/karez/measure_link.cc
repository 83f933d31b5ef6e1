// Measures a link with round trips of small messages, then with long messages in both directions. The end that begins
// decides how many messages are sent.
#include "tools/karez/measure_link.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include "karez/base/error.h"

namespace karez::tools {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }
std::int64_t time_of_day() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

constexpr std::int64_t small = 64, large = 1 << 20;
constexpr int depth = 4;

// One end of the link, which sleeps until its notifier wakes it, as a worker of the engine does.
class LinkEndpoint {
 public:
  LinkEndpoint(Connection& connection, std::uint64_t channel, Seconds timeout) : timeout_(timeout) {
    notifier_.set_wake([this] {
      std::lock_guard lock(mutex_);
      notified_ = true;
      changed_.notify_one();
    });
    link_ = connection.open(channel, depth, notifier_);
  }

  void post(std::byte* destination, std::int64_t bytes) { link_->post_receive(destination, bytes), ++posted_; }
  void send(const std::byte* outgoing, std::int64_t bytes) { link_->send(outgoing, bytes), ++sends_; }
  void await_received(std::int64_t still_pending = 0) {
    wait([&] { return link_->received() >= posted_ - still_pending; });
  }
  void await_sent(std::int64_t still_pending = 0) {
    wait([&] { return link_->sent() >= sends_ - still_pending; });
  }

 private:
  template <class Condition> void wait(Condition condition) {
    while (!condition()) {
      if (const Error* failure = link_->failure()) throw Error(*failure);
      std::unique_lock lock(mutex_);
      const bool was_notified = changed_.wait_for(lock, timeout_, [this] { return notified_; });
      require(ErrorKind::peer, was_notified, "no message within ", timeout_.count(), " s");
      notified_ = false;
      lock.unlock();
      notifier_.acknowledge();
    }
  }

  Seconds timeout_;
  Notifier notifier_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;
  std::int64_t posted_ = 0, sends_ = 0;
  std::unique_ptr<Link> link_;  // last, so that it is destroyed first
};

struct PingMessage {
  std::int64_t number = 0, time = 0;
  std::byte padding[small - 16] = {};
};
static_assert(sizeof(PingMessage) == small);

struct PingResult {
  double median = 0, clock = 0, clock_error = 1e9;
};

// Measures round trips of 64 bytes. The receive of the next round is posted before the reply is sent, so that its
// credit arrives in time.
PingResult measure_ping(LinkEndpoint& end, bool begins, std::int64_t count) {
  PingResult out;
  std::vector<double> times;
  PingMessage outgoing, incoming;
  auto post = [&] { end.post(reinterpret_cast<std::byte*>(&incoming), small); };
  auto send = [&] { end.send(reinterpret_cast<const std::byte*>(&outgoing), small); };
  post();
  for (std::int64_t i = 0; i < count; ++i) {
    end.await_sent();
    outgoing.number = i;
    outgoing.time = time_of_day();
    const auto begin = Clock::now();
    if (begins) send();
    end.await_received();
    const double round = seconds_since(begin);
    require(ErrorKind::peer, incoming.number == i, "expected message ", i, ", got ", incoming.number);
    if (begins && round / 2 < out.clock_error) {
      out.clock_error = round / 2;
      out.clock = static_cast<double>(incoming.time - outgoing.time) * 1e-9 - round / 2;
    }
    times.push_back(round);
    if (!begins) outgoing.time = time_of_day();
    if (i + 1 < count) post();
    if (!begins) send();
  }
  end.await_sent();
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  out.median = times[times.size() / 2];
  return out;
}

std::uint64_t word_of(bool begins, std::int64_t message, std::int64_t at) {
  return (static_cast<std::uint64_t>(message) * 0x9e3779b97f4a7c15ull + static_cast<std::uint64_t>(at)) * 2 +
         (begins ? 1 : 0);
}
void store_word(std::byte* destination, std::uint64_t word) { std::memcpy(destination, &word, sizeof word); }

// Returns the seconds that `count` messages of 1 MiB in each direction take. Checks the first and the last word of each
// message.
double measure_stream(LinkEndpoint& end, bool begins, std::int64_t count) {
  std::vector<std::byte> outgoing(depth * large), incoming(depth * large);
  auto at = [](std::int64_t i) { return i % depth * large; };
  const std::int64_t last = large - static_cast<std::int64_t>(sizeof(std::uint64_t));
  auto check = [&](std::int64_t i) {
    for (std::int64_t offset : {std::int64_t{0}, last}) {
      std::uint64_t word = 0;
      std::memcpy(&word, incoming.data() + at(i) + offset, sizeof word);
      require(ErrorKind::peer, word == word_of(!begins, i, offset), "the received bytes differ from the sent bytes");
    }
  };
  const auto begin = Clock::now();
  for (std::int64_t i = 0; i < count + depth; ++i) {
    if (i >= depth) {
      end.await_received(std::min<std::int64_t>(depth, count + depth - i) - 1);
      check(i - depth);
      end.await_sent(std::min<std::int64_t>(depth, count + depth - i) - 1);
    }
    if (i >= count) continue;
    for (std::int64_t offset : {std::int64_t{0}, last})
      store_word(outgoing.data() + at(i) + offset, word_of(begins, i, offset));
    end.post(incoming.data() + at(i), large);
    end.send(outgoing.data() + at(i), large);
  }
  return seconds_since(begin);
}

// Sends the count from the end that begins to the other end, and returns it on both.
std::int64_t exchange_count(LinkEndpoint& end, bool begins, std::int64_t own_count) {
  std::int64_t count = own_count;
  auto* bytes = reinterpret_cast<std::byte*>(&count);
  if (begins) end.send(bytes, sizeof count), end.await_sent();
  else end.post(bytes, sizeof count), end.await_received();
  return count;
}
std::int64_t rounds_for(double seconds, double seconds_per_round, std::int64_t min_rounds, std::int64_t max_rounds) {
  return std::clamp(static_cast<std::int64_t>(seconds / std::max(seconds_per_round, 1e-7)), min_rounds, max_rounds);
}

}  // namespace

LinkMeasure measure_link(Connection& connection, std::uint64_t channel, bool begins, double seconds, Seconds timeout) {
  LinkEndpoint end(connection, channel, timeout);
  const PingResult warm_up = measure_ping(end, begins, 20);
  const PingResult rounds =
      measure_ping(end, begins, exchange_count(end, begins, rounds_for(seconds * 0.4, warm_up.median, 20, 10000)));
  const std::int64_t warm_up_messages = 8;
  const double first = measure_stream(end, begins, warm_up_messages) / static_cast<double>(warm_up_messages);
  const std::int64_t count = exchange_count(end, begins, rounds_for(seconds * 0.4, first, warm_up_messages, 10000));
  const double stream = measure_stream(end, begins, count);
  LinkMeasure out;
  out.cost.alpha = rounds.median / 2;
  out.cost.beta = stream / static_cast<double>(count * large);
  out.clock = rounds.clock;
  out.clock_error = rounds.clock_error;
  return out;
}

}  // namespace karez::tools
