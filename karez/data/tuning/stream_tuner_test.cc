// Tests in virtual time that automatic numbers are as good as the best given ones: with the machine of streams, and a
// model of the times that functions wait and compute.
#include "karez/data/tuning/stream_tuner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <vector>

#include "karez/base/text.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/test_random_datasets.h"

namespace karez::data {
namespace {

constexpr int cores = 2;
constexpr std::int64_t many = 1'000'000'000;
constexpr double act_overhead = 1e-6, short_act = 10e-6;  // seconds

// The clock, and what the functions called in the current act need.
struct VirtualTime {
  double now = 0, wait = 0, compute = 0;
  void spend(double waiting, double computing) { wait += waiting, compute += computing; }
};

// Executes a stream in virtual time: acts wait, then compute on the cores, which they share equally. As data threads
// do, one thread executes the acts of all short stages.
class Simulation {
 public:
  Simulation(VirtualTime& time, const Dataset& dataset, bool tuned) : time_(time), dataset_(dataset), tuned_(tuned) {
    make();
  }

  // Reads until this time; the reader computes for `reader(n)` seconds after each element. Returns the elements read.
  std::int64_t read_until(double end, const std::function<double(std::int64_t)>& reader) {
    const std::int64_t before = count_;
    while (time_.now < end) {
      if (!machine_->reading()) machine_->start({epoch_});
      for (bool moved = true; moved;) {
        machine_->deliver_all();
        moved = begin_acts();
        if (reader_free_ <= time_.now && machine_->readable()) {
          const std::optional<Element> element = machine_->read();
          require(element.has_value(), "the data set has ended");
          state_ = element->state;
          reader_free_ = time_.now + reader(count_++);
          moved = true;
        }
      }
      machine_->dropped().clear();
      note();
      const bool changed = tuner_ && tuner_->step(time_.now);
      if (tuner_ && tuner_->wants_other_actors() && continues_at(machine().tree(), state_.get())) {
        make();
        machine_->start({epoch_, state_});
        continue;
      }
      if (changed) continue;
      pass(std::min(next_event(), end - time_.now + 1e-12));
    }
    return count_ - before;
  }
  std::string text() const { return tuner_ ? tuner_->text() : ""; }
  const StageMachine& machine() const { return *machine_; }

 private:
  void make() {
    running_.clear();
    tuner_.reset();
    budget_ = {.cores = 1000 * cores};
    machine_.emplace(stage_tree(dataset_.node()));
    short_.assign(machine().graph().stages.size(), false);
    short_running_ = 0;
    if (!tuned_) return;
    machine_->set_core_budget(&budget_);
    tuner_.emplace(*machine_, TunerLimits{.cores = cores, .short_act = short_act});
  }
  struct Running {
    StageExecution execution;
    double wait, compute, wait_left, compute_left;
    bool is_short;
  };
  void note() {
    if (tuner_) tuner_->note(reader_free_ <= time_.now && !machine_->readable(), time_.now);
  }
  bool begin_acts() {
    bool begun = false;
    for (std::size_t i = short_.size(); i-- > 0;) {
      const plan::StageId id(i);
      while (machine_->ready(id) && !(short_[i] && short_running_ > 0)) {
        begun = true;
        time_.wait = time_.compute = 0;
        StageExecution execution = machine_->begin(id);
        machine_->execute(execution);
        short_running_ += short_[i];
        time_.compute += act_overhead;
        running_.push_back(
            {std::move(execution), time_.wait, time_.compute, time_.wait, time_.compute, short_[i] != 0});
      }
    }
    return begun;
  }
  double slowdown() const {
    int computing = 0;
    for (const Running& act : running_) computing += act.wait_left <= 0;
    return std::max(1.0, static_cast<double>(computing) / cores);
  }
  double next_event() const {
    double next = reader_free_ > time_.now ? reader_free_ - time_.now : 1;
    if (tuner_) next = std::min(next, StreamTuner::period);
    const double slow = slowdown();
    for (const Running& act : running_)
      next = std::min(next, act.wait_left > 0 ? act.wait_left : act.compute_left * slow);
    return std::max(next, 1e-12);
  }
  void pass(double seconds) {
    const double slow = slowdown();
    time_.now += seconds;
    for (std::size_t i = 0; i < running_.size();) {
      Running& act = running_[i];
      if (act.wait_left > 0) act.wait_left -= seconds;
      else act.compute_left -= seconds / slow;
      if (act.wait_left > 1e-12 || act.compute_left > 1e-12) {
        if (act.wait_left <= 1e-12) act.wait_left = 0;
        ++i;
        continue;
      }
      const auto at = static_cast<std::size_t>(act.execution.stage.index);
      short_running_ -= act.is_short;
      if (act.execution.act.kind == plan::StageAct::Kind::element) {
        short_[at] = act.wait + act.compute < short_act;
        if (tuner_) tuner_->add_act(act.execution.stage, act.wait + act.compute, act.compute);
      }
      machine_->complete(act.execution);
      machine_->deliver_all();
      std::swap(act, running_.back());
      running_.pop_back();
    }
  }

  VirtualTime& time_;
  const Dataset dataset_;
  const bool tuned_;
  std::optional<StageMachine> machine_;
  CoreBudget budget_;
  std::optional<StreamTuner> tuner_;
  std::vector<char> short_;
  int short_running_ = 0;
  std::vector<Running> running_;
  double reader_free_ = 0;
  std::int64_t count_ = 0, epoch_ = 0;
  StreamStateRef state_;
};

// Numbers of lanes and slots for a pipeline; or automatic.
struct Numbers3 {
  int lanes = 1, second_lanes = 1, slots = 2;
};
constexpr Numbers3 chosen{automatic, automatic, automatic};

struct Pipeline {
  std::string name;
  // `load`: 0 or 1.
  std::function<Dataset(VirtualTime&, const int& load, const Numbers3&)> make;
  std::function<double(int load, std::int64_t n)> reader;
  bool second = false;  // Numbers3::second_lanes matters
};

// A number in [0, 1) that depends on n.
double uniform(std::int64_t n) { return RandomKey{7, 0, n}.uniform(0); }

std::vector<Pipeline> pipelines() {
  const auto never = [](int, std::int64_t) { return 0.0; };
  std::vector<Pipeline> out;
  out.push_back({"waiting",
                 [](VirtualTime& time, const int& load, const Numbers3& n) {
                   return range(many).map(
                       [&](const Element& e) {
                         time.spend(load == 0 ? 10e-3 : 40e-3, 20e-6);
                         return e;
                       },
                       {n.lanes});
                 },
                 never});
  out.push_back({"computing",
                 [](VirtualTime& time, const int& load, const Numbers3& n) {
                   return range(many)
                       .map(
                           [&](const Element& e) {
                             time.spend(0, load == 0 ? 5e-3 : 0.5e-3);
                             return e;
                           },
                           {n.lanes})
                       .map(
                           [&](const Element& e) {
                             time.spend(0, load == 0 ? 0.5e-3 : 5e-3);
                             return e;
                           },
                           {n.second_lanes})
                       .batch(4);
                 },
                 never, true});
  out.push_back({"skewed",
                 [](VirtualTime& time, const int& load, const Numbers3& n) {
                   return range(many)
                       .map(
                           [&](const Element& e) {
                             const double slow = load == 0 ? 60e-3 : 240e-3;
                             time.spend(uniform(number_of(e)) < 0.05 ? slow : 2e-3, 0.1e-3);
                             return e;
                           },
                           {n.lanes})
                       .prefetch(n.slots);
                 },
                 [](int, std::int64_t) { return 1e-3; }});
  out.push_back({"bursty",
                 [](VirtualTime& time, const int& load, const Numbers3& n) {
                   return range(many)
                       .filter([&](const Element& e) {
                         const std::int64_t burst = load == 0 ? 40 : 120;
                         if (number_of(e) % burst == 0) time.spend(static_cast<double>(burst) * 2e-3, 0);
                         return true;
                       })
                       .prefetch(n.slots)
                       .map(
                           [&](const Element& e) {
                             time.spend(3e-3, 0.1e-3);
                             return e;
                           },
                           {n.lanes});
                 },
                 [](int, std::int64_t) { return 1.95e-3; }});
  out.push_back({"two sources",
                 [](VirtualTime& time, const int& load, const Numbers3& n) {
                   const auto part = [&time](const int& which, int slow, int lanes) {
                     return range(many).map(
                         [&time, &which, slow](const Element& e) {
                           time.spend(which == slow ? 16e-3 : 1e-3, 50e-6);
                           return e;
                         },
                         {lanes});
                   };
                   return zip({part(load, 0, n.lanes), part(load, 1, n.second_lanes)});
                 },
                 [](int, std::int64_t) { return 0.5e-3; }, true});
  out.push_back({"tiny",
                 [](VirtualTime& time, const int& load, const Numbers3& n) {
                   return range(many)
                       .map(
                           [&](const Element& e) {
                             time.spend(0, load == 0 ? 0.5e-6 : 50e-6);
                             return e;
                           },
                           {n.lanes})
                       .batch(100)
                       .prefetch(n.slots);
                 },
                 never});
  return out;
}

// Elements per second in a load, after the time in which slots are filled.
double given_rate(const Pipeline& pipeline, int load, const Numbers3& numbers, double seconds) {
  const double before = pipeline.name == "tiny" ? 0.1 : 1;
  VirtualTime time;
  Simulation simulation(time, pipeline.make(time, load, numbers), false);
  const auto reader = [&](std::int64_t n) { return pipeline.reader(load, n); };
  simulation.read_until(before, reader);
  return static_cast<double>(simulation.read_until(before + seconds, reader)) / seconds;
}

double best_given_rate(const Pipeline& pipeline, int load, std::string& which) {
  double best = 0;
  const bool all = std::getenv("KAREZ_ALL") != nullptr;
  const std::vector<int> lanes = all ? std::vector{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} : std::vector{1, 2, 8, 64};
  for (int first : lanes)
    for (int second : pipeline.second ? lanes : std::vector{1})
      for (int slots : all ? std::vector{2, 16, 256} : std::vector{2, 256}) {
        const double rate = given_rate(pipeline, load, {first, second, slots},
                                       pipeline.name == "tiny"               ? 0.1
                                       : pipeline.name == "computing" || all ? 4
                                                                             : 2);
        if (rate > best) best = rate, which = cat("lanes ", first, ", ", second, ", slots ", slots);
      }
  return best;
}

TEST(StreamTuner, ReachesTheBestGivenNumbersWithinFiveSecondsAndAgainAfterAChangeOfTheLoad) {
  for (const Pipeline& pipeline : pipelines()) {
    VirtualTime time;
    int load = 0;
    Simulation simulation(time, pipeline.make(time, load, chosen), true);
    const auto reader = [&](std::int64_t n) { return pipeline.reader(load, n); };
    double end = 0;
    for (; load < 2; ++load) {
      std::string which;
      const double best = best_given_rate(pipeline, load, which);
      const bool tiny = pipeline.name == "tiny";  // millions of acts a second
      const double length = tiny ? 0.5 : 2;
      simulation.read_until(end += tiny && std::getenv("KAREZ_ALL") == nullptr ? 1 : 5, reader);
      const double rate = static_cast<double>(simulation.read_until(end += length, reader)) / length;
      EXPECT_GE(rate, 0.95 * best) << pipeline.name << ", load " << load << ", best with " << which << "\n"
                                   << simulation.text();
      std::printf("%-12s load %d: %10.1f/s, best %10.1f/s (%s), ratio %.3f\n%s", pipeline.name.c_str(), load, rate,
                  best, which.c_str(), rate / best, std::getenv("KAREZ_ALL") ? simulation.text().c_str() : "");
    }
  }
}

}  // namespace
}  // namespace karez::data
