// Packs blocks with a segment tree over times, whose nodes hold the occupied byte ranges.
#include "karez/solve/lifetime_packing.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <set>

#include "karez/base/error.h"

namespace karez::solve {
namespace {

// Begin and end of a range. The type is trivial, so that vectors move elements as raw bytes.
struct ByteRange {
  long first, second;
};

// Disjoint ranges in ascending order. Ranges with less than `gap` bytes between them are merged, so the list is valid
// only for searches for gaps of at least `gap` bytes.
class OccupiedRanges {
 public:
  void add(long from, long to, long gap) {
    auto at = std::lower_bound(list_.begin(), list_.end(), from,
                               [&](const ByteRange& s, long f) { return s.second + gap <= f; });
    if (at == list_.end() || at->first >= to + gap) {
      list_.insert(at, {from, to});
      return;
    }
    at->first = std::min(at->first, from);
    auto last = at;
    while (std::next(last) != list_.end() && std::next(last)->first < to + gap) ++last;
    at->second = std::max(last->second, to);
    list_.erase(std::next(at), std::next(last));
  }
  const std::vector<ByteRange>& list() const { return list_; }

 private:
  std::vector<ByteRange> list_;
};

// A segment tree over times. Each node stores the ranges that are occupied at some time of its interval, and the ranges
// that are occupied throughout the interval.
class TimeTree {
 public:
  TimeTree(int times, long gap)
      : times_(std::max(times, 1)),
        gap_(gap),
        nodes_(2 * std::bit_ceil(static_cast<std::size_t>(times_))) {}

  void add(int begin, int end, long from, long to) {
    if (begin < end) add(1, 0, times_, begin, end, from, to);
  }
  template <class Visit> void visit(int begin, int end, Visit visit) const {
    if (begin < end) this->visit(1, 0, times_, begin, end, visit);
  }

 private:
  struct Node {
    OccupiedRanges always, sometimes;
  };

  void add(std::size_t node, int first, int last, int begin, int end, long from, long to) {
    nodes_[node].sometimes.add(from, to, gap_);
    if (begin <= first && last <= end) return nodes_[node].always.add(from, to, gap_);
    const int middle = first + (last - first) / 2;
    if (begin < middle) add(2 * node, first, middle, begin, end, from, to);
    if (end > middle) add(2 * node + 1, middle, last, begin, end, from, to);
  }
  template <class Visit> void visit(std::size_t node, int first, int last, int begin, int end, Visit& visit) const {
    if (begin <= first && last <= end) return visit(nodes_[node].sometimes.list());
    visit(nodes_[node].always.list());
    const int middle = first + (last - first) / 2;
    if (begin < middle) this->visit(2 * node, first, middle, begin, end, visit);
    if (end > middle) this->visit(2 * node + 1, middle, last, begin, end, visit);
  }
  int times_;
  long gap_;
  std::vector<Node> nodes_;
};

// Answers queries for the maximum number of bytes in use over an interval of times.
class Pressure {
 public:
  Pressure(const Timeline& timeline, std::span<const Block> blocks)
      : times_(static_cast<std::size_t>(timeline.times) + 1),
        max_(2 * times_, 0) {
    std::vector<long> change(times_ + 1, 0);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const BlockLifetime& l = timeline.lifetimes[b];
      change[l.begin] += blocks[b].size, change[l.end] -= blocks[b].size;
      change[0] += blocks[b].size, change[l.next_round_end] -= blocks[b].size;
    }
    for (std::size_t t = 0, live = 0; t < times_; ++t)
      max_[times_ + t] = static_cast<long>(live += static_cast<std::size_t>(change[t]));
    for (std::size_t n = times_; n-- > 1;) max_[n] = std::max(max_[2 * n], max_[2 * n + 1]);
  }
  long max_bytes(int begin, int end) const {
    long maximum = 0;
    for (std::size_t a = times_ + static_cast<std::size_t>(begin), b = times_ + static_cast<std::size_t>(end); a < b;
         a /= 2, b /= 2) {
      if (a % 2 == 1) maximum = std::max(maximum, max_[a++]);
      if (b % 2 == 1) maximum = std::max(maximum, max_[--b]);
    }
    return maximum;
  }

 private:
  std::size_t times_;
  std::vector<long> max_;
};

// The ranges of the blocks placed so far, on one timeline: in this round and in the next one.
struct TimelineOccupancy {
  TimeTree now, next;
  TimelineOccupancy(int times, long gap) : now(times, gap), next(times, gap) {}
};

// Returns 1 and the largest block sizes, rounded down to powers of two. A block of at least such a size can ignore
// smaller gaps.
std::vector<long> gaps_of(std::span<const Block> blocks) {
  constexpr std::size_t max_powers = 3;
  std::set<long, std::greater<>> powers;
  for (const Block& b : blocks)
    if (b.size > 1) powers.insert(static_cast<long>(std::bit_floor(static_cast<unsigned long>(b.size))));
  std::vector<long> gaps = {1};
  for (long power : powers)
    if (gaps.size() <= max_powers) gaps.push_back(power);
  std::sort(gaps.begin(), gaps.end());
  return gaps;
}

class LifetimePacker {
 public:
  LifetimePacker(std::span<const Block> blocks, std::span<const Timeline> timelines, std::span<const int> timeline_of)
      : blocks_(blocks),
        timelines_(timelines),
        timeline_of_(timeline_of),
        gaps_(gaps_of(blocks)) {}

  // Returns an empty list if the peak would not be below `limit`.
  std::vector<long> pack_in_order(const std::vector<int>& order, long limit, std::int64_t& work) {
    std::vector<std::vector<TimelineOccupancy>> occupancy(timelines_.size());  // by timeline and gap
    for (std::size_t c = 0; c < timelines_.size(); ++c)
      for (long gap : gaps_) occupancy[c].emplace_back(timelines_[c].times, gap);
    std::vector<long> offset(blocks_.size(), 0);
    for (int b : order) {
      const auto gap = std::upper_bound(gaps_.begin(), gaps_.end(), blocks_[b].size) - gaps_.begin() - 1;
      const long begin = lowest(occupancy[timeline_of_[b]][gap], b, work), end = begin + blocks_[b].size;
      if (end >= limit) return {};
      offset[b] = begin;
      for (std::size_t c = 0; c < timelines_.size(); ++c)
        for (TimelineOccupancy& h : occupancy[c]) {
          const BlockLifetime& life = timelines_[c].lifetimes[b];
          h.now.add(life.begin, life.end, begin, end);
          h.next.add(0, life.next_round_end, begin, end);
        }
    }
    return offset;
  }

 private:
  long lowest(const TimelineOccupancy& occupancy, int b, std::int64_t& work) {
    const BlockLifetime& life = timelines_[timeline_of_[b]].lifetimes[b];
    occupied_.clear();
    auto add_ranges = [&](const std::vector<ByteRange>& list) {
      if (!list.empty()) occupied_.push_back(list);
    };
    occupancy.now.visit(life.begin, life.end, add_ranges);
    occupancy.now.visit(0, life.next_round_end, add_ranges);
    occupancy.next.visit(life.begin, std::min(life.begin + 1, life.end), add_ranges);
    const Block& block = blocks_[b];
    long offset = 0;
    for (bool raised_offset = true; raised_offset;) {
      raised_offset = false;
      work += static_cast<std::int64_t>(occupied_.size());
      for (auto& list : occupied_) {
        const auto next_range =
            std::upper_bound(list.begin(), list.end(), offset, [](long a, const ByteRange& s) { return a < s.second; });
        list = list.subspan(static_cast<std::size_t>(next_range - list.begin()));
        if (list.empty() || list[0].first >= offset + block.size) continue;
        offset = round_up(list[0].second, block.align);
        raised_offset = true;
      }
    }
    return offset;
  }

  std::span<const Block> blocks_;
  std::span<const Timeline> timelines_;
  std::span<const int> timeline_of_;
  std::vector<long> gaps_;
  std::vector<std::span<const ByteRange>> occupied_;
};

void check(std::span<const Block> blocks, std::span<const Timeline> timelines, std::span<const int> timeline_of) {
  require(timeline_of.size() == blocks.size(), "pack: expected a timeline for each of ", blocks.size(), " blocks, got ",
          timeline_of.size());
  for (const Timeline& timeline : timelines) {
    require(timeline.lifetimes.size() == blocks.size(), "pack: a timeline must have ", blocks.size(),
            " lifetimes, one per block, got ", timeline.lifetimes.size());
    for (const BlockLifetime& l : timeline.lifetimes)
      require(0 <= l.begin && l.begin <= l.end && l.end <= timeline.times && 0 <= l.next_round_end &&
                  l.next_round_end <= timeline.times,
              "pack: a lifetime must be within 0 to ", timeline.times, ", got ", l.begin, " to ", l.end,
              " and next round until ", l.next_round_end);
  }
  for (std::size_t b = 0; b < blocks.size(); ++b)
    require(blocks[b].size >= 0 && blocks[b].align > 0 && timeline_of[b] >= 0 &&
                static_cast<std::size_t>(timeline_of[b]) < timelines.size(),
            "pack: block ", b, " must have a size of at least 0, an align of at least 1 and a timeline below ",
            timelines.size(), ", got ", blocks[b].size, ", ", blocks[b].align, " and ", timeline_of[b]);
}

}  // namespace

LifetimePacking pack(std::span<const Block> blocks, std::span<const Timeline> timelines,
                     std::span<const int> timeline_of, const LifetimePackingLimits& limits) {
  check(blocks, timelines, timeline_of);
  LifetimePacking best{std::vector<long>(blocks.size(), 0), 0, 0};
  std::vector<int> nonempty;
  for (std::size_t b = 0; b < blocks.size(); ++b)
    if (blocks[b].size > 0) nonempty.push_back(static_cast<int>(b));
  if (nonempty.empty()) return best;
  auto life = [&](int b) -> const BlockLifetime& {
    return timelines[static_cast<std::size_t>(timeline_of[b])].lifetimes[b];
  };
  auto length = [&](int b) { return life(b).end - life(b).begin + life(b).next_round_end; };
  auto sorted_by = [&](auto key) {
    std::vector<int> order = nonempty;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
    return order;
  };
  std::vector<Pressure> pressures;
  for (const Timeline& timeline : timelines) pressures.emplace_back(timeline, blocks);
  std::vector<double> max_pressure(blocks.size(), 0);
  for (int b : nonempty) {
    const Pressure& p = pressures[static_cast<std::size_t>(timeline_of[b])];
    max_pressure[b] =
        static_cast<double>(std::max(p.max_bytes(life(b).begin, life(b).end), p.max_bytes(0, life(b).next_round_end)));
  }
  auto size = [&](int b) { return static_cast<double>(blocks[b].size); };
  const std::vector<int> orders[] = {
      nonempty,
      sorted_by([&](int b) { return std::pair(-max_pressure[b], -size(b) * length(b)); }),
      sorted_by([&](int b) { return std::pair(-max_pressure[b], -size(b)); }),
      sorted_by([&](int b) { return std::pair(-size(b) * length(b), -size(b)); }),
      sorted_by([&](int b) { return std::pair(-size(b), -static_cast<double>(length(b))); }),
      sorted_by([&](int b) { return std::pair(-static_cast<double>(length(b)), -size(b)); })};
  LifetimePacker packer(blocks, timelines, timeline_of);
  best.peak = std::numeric_limits<long>::max();
  for (const auto& order : orders) {
    if (best.peak <= limits.target_peak ||
        best.work > limits.work_per_block * static_cast<std::int64_t>(nonempty.size()))
      break;
    std::vector<long> offset = packer.pack_in_order(order, best.peak, best.work);
    if (offset.empty()) continue;
    best.offset = std::move(offset), best.peak = 0;
    for (int b : nonempty) best.peak = std::max(best.peak, best.offset[b] + blocks[b].size);
  }
  return best;
}

}  // namespace karez::solve
