// Measures a link: rounds of small messages, then long ones in both directions. The end that begins decides how many.
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
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }
std::int64_t time_of_day() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

constexpr std::int64_t small = 64, large = 1 << 20;
constexpr int depth = 4;

// One end of the link, which sleeps until its notifier wakes it, as a worker of the engine does.
class LinkEndpoint {
 public:
  LinkEndpoint(Connection& connection, std::uint64_t channel, Seconds patience) : patience_(patience) {
    notifier_.set_wake([this] {
      std::lock_guard lock(mutex_);
      notified_ = true;
      changed_.notify_one();
    });
    link_ = connection.open(channel, depth, notifier_);
  }

  void post(std::byte* into, std::int64_t bytes) { link_->post_receive(into, bytes), ++posted_; }
  void send(const std::byte* from, std::int64_t bytes) { link_->send(from, bytes), ++sends_; }
  void await_received(std::int64_t left_out = 0) {
    wait([&] { return link_->received() >= posted_ - left_out; });
  }
  void await_sent(std::int64_t left_out = 0) {
    wait([&] { return link_->sent() >= sends_ - left_out; });
  }

 private:
  template <class Holds> void wait(Holds holds) {
    while (!holds()) {
      if (const Error* failure = link_->failure()) throw Error(*failure);
      std::unique_lock lock(mutex_);
      const bool told = changed_.wait_for(lock, patience_, [this] { return notified_; });
      require(ErrorKind::peer, told, "no message within ", patience_.count(), " s");
      notified_ = false;
      lock.unlock();
      notifier_.acknowledge();
    }
  }

  Seconds patience_;
  Notifier notifier_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;
  std::int64_t posted_ = 0, sends_ = 0;
  std::unique_ptr<Link> link_;  // last, so that it is destroyed first
};

struct PingMessage {
  std::int64_t number = 0, time = 0;
  std::byte rest[small - 16] = {};
};
static_assert(sizeof(PingMessage) == small);

struct PingResult {
  double median = 0, clock = 0, clock_error = 1e9;
};

// Rounds of 64 bytes. The receive of the next round is posted before the reply is sent, so that its credit arrives in
// time.
PingResult measure_ping(LinkEndpoint& end, bool begins, std::int64_t count) {
  PingResult out;
  std::vector<double> times;
  PingMessage from, to;
  auto post = [&] { end.post(reinterpret_cast<std::byte*>(&to), small); };
  auto send = [&] { end.send(reinterpret_cast<const std::byte*>(&from), small); };
  post();
  for (std::int64_t i = 0; i < count; ++i) {
    end.await_sent();
    from.number = i;
    from.time = time_of_day();
    const auto begin = Clock::now();
    if (begins) send();
    end.await_received();
    const double round = since(begin);
    require(ErrorKind::peer, to.number == i, "expected message ", i, ", got ", to.number);
    if (begins && round / 2 < out.clock_error) {
      out.clock_error = round / 2;
      out.clock = static_cast<double>(to.time - from.time) * 1e-9 - round / 2;
    }
    times.push_back(round);
    if (!begins) from.time = time_of_day();
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
void put(std::byte* into, std::uint64_t word) { std::memcpy(into, &word, sizeof word); }

// Seconds for `count` messages of 1 MB in each direction. The first and last word of each are checked.
double measure_stream(LinkEndpoint& end, bool begins, std::int64_t count) {
  std::vector<std::byte> from(depth * large), to(depth * large);
  auto at = [](std::int64_t i) { return i % depth * large; };
  const std::int64_t last = large - static_cast<std::int64_t>(sizeof(std::uint64_t));
  auto check = [&](std::int64_t i) {
    for (std::int64_t place : {std::int64_t{0}, last}) {
      std::uint64_t word = 0;
      std::memcpy(&word, to.data() + at(i) + place, sizeof word);
      require(ErrorKind::peer, word == word_of(!begins, i, place), "the received bytes differ from the sent bytes");
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
    for (std::int64_t place : {std::int64_t{0}, last}) put(from.data() + at(i) + place, word_of(begins, i, place));
    end.post(to.data() + at(i), large);
    end.send(from.data() + at(i), large);
  }
  return since(begin);
}

// Sends the number of the end that begins to the other end.
std::int64_t exchange_count(LinkEndpoint& end, bool begins, std::int64_t number) {
  std::int64_t error_text = number;
  auto* bytes = reinterpret_cast<std::byte*>(&error_text);
  if (begins) end.send(bytes, sizeof error_text), end.await_sent();
  else end.post(bytes, sizeof error_text), end.await_received();
  return error_text;
}
std::int64_t rounds_for(double seconds, double each, std::int64_t least, std::int64_t most) {
  return std::clamp(static_cast<std::int64_t>(seconds / std::max(each, 1e-7)), least, most);
}

}  // namespace

LinkMeasure measure_link(Connection& connection, std::uint64_t channel, bool begins, double seconds, Seconds patience) {
  LinkEndpoint end(connection, channel, patience);
  const PingResult warm = measure_ping(end, begins, 20);
  const PingResult rounds =
      measure_ping(end, begins, exchange_count(end, begins, rounds_for(seconds * 0.4, warm.median, 20, 10000)));
  const std::int64_t few = 8;
  const double first = measure_stream(end, begins, few) / static_cast<double>(few);
  const std::int64_t count = exchange_count(end, begins, rounds_for(seconds * 0.4, first, few, 10000));
  const double stream = measure_stream(end, begins, count);
  LinkMeasure out;
  out.cost.alpha = rounds.median / 2;
  out.cost.beta = stream / static_cast<double>(count * large);
  out.clock = rounds.clock;
  out.clock_error = rounds.clock_error;
  return out;
}

}  // namespace karez::tools
