// Tests of how many elements stages hold: a fast producer stops, and nothing is left at the end of an epoch.
#include <gtest/gtest.h>

#include <atomic>

#include "karez/base/text.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/stage_machine.h"

namespace karez::data {
namespace {

// Elements that count how many of them exist.
class CountedElements {
 public:
  Dataset dataset(std::int64_t size) {
    return from_function(size, [this](std::int64_t index) {
      ++alive_;
      Element out = element(HostArray::of<std::int64_t>({1}, {index}));
      out.fields.emplace_back(Object(new int(0), [this](const void* pointer) {
        delete static_cast<const int*>(pointer);
        --alive_;
      }));
      out.structure = tuple_structure({leaf_structure(), leaf_structure()});
      return out;
    });
  }
  int alive() const { return alive_; }

 private:
  std::atomic<int> alive_{0};
};

// Executes acts until none is ready.
void run(StageMachine& machine) {
  for (bool any = true; any;) {
    any = false;
    machine.deliver_all();
    for (plan::StageId id : machine.graph().stages.ids())
      while (machine.ready(id)) {
        StageExecution execution = machine.begin(id);
        machine.execute(execution);
        machine.complete(execution);
        machine.deliver_all();
        any = true;
      }
    machine.dropped().clear();
  }
}

Element same(const Element& element) { return element; }

struct Case {
  const char* name;
  std::function<Dataset(const Dataset&)> stages;
  int most;  // the most elements that may exist before any is read
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"plain", [](const Dataset& d) { return d; }, 3},
      {"map in lanes", [](const Dataset& d) { return d.map(same, {3}); }, 3 * 2 + 3},
      {"prefetch", [](const Dataset& d) { return d.prefetch(10); }, 13},
      {"batch", [](const Dataset& d) { return d.batch(4); }, 3 * 4},
      {"window", [](const Dataset& d) { return d.window(6, 2); }, 6 + 3 * 2 + 2},
      {"shuffle by a buffer", [](const Dataset& d) { return d.shuffle({.buffer = 20}); }, 20 + 3},
      {"shuffle of all", [](const Dataset& d) { return d.shuffle(); }, 3},
      {"bucket_by_length",
       [](const Dataset& d) {
         return d.bucket_by_length([](const Element& e) { return array_of(e).data<std::int64_t>()[0] % 10; }, {5},
                                   {4, 4});
       },
       3 * 4 + 8},
      {"interleave",
       [](const Dataset& d) {
         return range(10).interleave([d](const Element&) { return d.take(20); }, {3, 1, true});
       },
       6 * 4 + 3},
  };
  return all;
}

TEST(HeldElements, AProducerThatNobodyReadsStopsAtItsSlots) {
  for (const Case& c : cases()) {
    CountedElements elements;
    StageMachine machine(stage_tree(c.stages(elements.dataset(100000)).node(), 2));
    machine.start({});
    run(machine);
    EXPECT_TRUE(machine.readable()) << c.name;
    EXPECT_LE(elements.alive(), c.most) << c.name;
    EXPECT_GT(elements.alive(), 0) << c.name;
  }
}

TEST(HeldElements, NothingIsLeftAtTheEndOfAnEpoch) {
  for (const Case& c : cases()) {
    CountedElements elements;
    StageMachine machine(stage_tree(c.stages(elements.dataset(50)).node(), 2));
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      machine.start({epoch});
      int count = 0;
      for (run(machine); machine.readable(); run(machine)) count += machine.read().has_value();
      EXPECT_GT(count, 5) << c.name;
      EXPECT_EQ(elements.alive(), 0) << c.name << ", epoch " << epoch;
    }
  }
}

TEST(HeldElements, NothingIsLeftAfterAStop) {
  for (const Case& c : cases()) {
    CountedElements elements;
    StageMachine machine(stage_tree(c.stages(elements.dataset(50)).node(), 2));
    machine.start({});
    run(machine);
    machine.read();
    machine.stop();
    run(machine);
    EXPECT_EQ(elements.alive(), 0) << c.name;
  }
}

}  // namespace
}  // namespace karez::data
