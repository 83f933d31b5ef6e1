// Slots for the registers of a synchronous dataflow program: the interval that given slots allow, and the cheapest
// slots for an interval.
//
// The model. In each launch an actor acts `acts` times, one act at a time, each for `seconds`. A register moves pieces
// from its producer to its consumers. The producer takes a free slot at the begin of the first of `period` acts and
// fills it at the end of the last; a consumer reads it during `period` acts of its own and returns it at the end of the
// last; the slot is free once all consumers have returned it. So piece g is a wait forward (the consumer's first act on
// it for the producer's last), and with s slots a wait back: the producer's first act for piece g waits for the last
// act on piece g - s. One launch's acts are the nodes of a graph, those waits are its edges, with a token for every
// launch they reach back, and the interval between launches is the maximum cycle ratio (cycle_ratio.h). That is exact:
// acts that begin as early as they may settle at this interval (where parts do not wait for each other, the slowest
// does).
//
// A stream lets one of its actors act at a time. With an `order` of its acts it is one more cycle with one token, and
// exact. Without an order only the sum of its actors' seconds is known to bound the interval from below: a rule that
// picks acts as they come may do worse.
//
// Of several rates every act of a launch is a node, so the size is the sum of `acts` (SlotLimits::acts).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

struct SlotProblem {
  struct Actor {
    double seconds = 0;  // of one act; >= 0
    int acts = 1;        // in a launch
  };
  struct Consumer {
    int actor = 0;
    int period = 1;      // acts for which it holds a slot
    double arrives = 0;  // seconds from the producer's end until it may read
    double returns = 0;  // seconds from its own end until the producer has the slot back
  };
  struct Register {
    int producer = 0;
    std::vector<Consumer> consumers;  // at least one; as many pieces a launch as are produced
    std::int64_t bytes = 0;           // of a slot; of what costs nothing a plan has as few slots as do
    int least = 1, most = 1;          // slots
    int period = 1;                   // acts of the producer for each piece
    int filled = 0;                   // slots that are full before the first launch
  };
  struct Act {
    int actor = 0;
    std::int64_t act = 0;  // its number since the first launch; below 0 there is none to wait for
  };
  struct Stream {
    std::vector<int> actors;  // where no order is known
    std::vector<Act>
        order;  // else: the acts between two launches in their order, the same order `acts` later for the next. An
                // actor's acts stand here in a row of numbers: F 0, B -2 is a stream that runs B two launches behind F
  };
  std::vector<Actor> actors;
  std::vector<Register> registers;
  std::vector<Stream> streams;
};

std::int64_t acts_of(const SlotProblem& problem);  // in a launch, of all actors

// Limits are counted, never seconds: every rank decides alike.
struct SlotLimits {
  std::int64_t steps =
      20'000;  // of one search: slot vectors measured and linear programs solved; 0 leaves the greedy answer
  std::int64_t acts = 20'000;  // in a launch of all actors; more is an error
};

// Why a launch takes so long after the last: a cycle of waits.
struct SlotCycle {
  enum class WaitKind : std::uint8_t {
    data,    // the next waits for the piece that this act fills
    slot,    // the next waits for the slot that this act returns
    actor,   // the next is the same actor's next act
    stream,  // the next stands after this act on its stream
  };
  struct Step {
    int actor = 0, act = 0;  // of a launch
    WaitKind kind = WaitKind::data;
    int index = 0;  // the register, actor or stream
  };
  double interval = 0;      // seconds / tokens; 0 without a cycle; infinite where nothing can ever move
  double seconds = 0;       // around the cycle
  std::int64_t tokens = 0;  // launches
  std::vector<Step> steps;  // of a stream without order: its actors, and one token

  bool is_deadlock() const { return !steps.empty() && tokens <= 0; }  // the program is not live, and `steps` proves it
};
std::string print(
    const SlotCycle& cycle);  // "actor 0 -register 1-> actor 2 -slots of register 1-> actor 0: 3 seconds over 1 token"

struct SlotPlan {
  std::vector<int> slots;  // of each register
  double interval = 0;     // seconds between launches with these slots
  std::int64_t bytes = 0;  // of all slots
  std::int64_t bound = 0;  // no slots that reach the interval asked for (best_slots: this interval) take fewer bytes
  double least_interval =
      0;  // best_slots: no slots under the cap have a smaller one; cheapest_slots: the one of `most` slots
  bool optimal = false;  // bytes == bound, and for best_slots interval == least_interval (to one part in 10^8)
  SlotCycle critical;    // what sets the interval
};

// The interval with these slots: exact but for streams without order, for which it is a lower bound. An interval is
// never raised by a slot.
SlotCycle interval_of(const SlotProblem& problem, std::span<const int> slots, const SlotLimits& limits = {});

// The fewest bytes with which the interval is at most this (to one part in 10^9; infinity asks for liveness alone). An
// error that names the cycle if not even the most slots reach it. A slot vector that is too slow has a cycle that says
// which sums of slots must grow: a covering program over such rows, found as they are needed, solved by branch and
// bound (of equal rates it is the integer program of Govindarajan, Gao and Desai, "Minimizing buffer requirements under
// rate-optimal schedule in regular dataflow networks", 2002).
SlotPlan cheapest_slots(const SlotProblem& problem, double interval, const SlotLimits& limits = {});

// The smallest interval among slots of at most `cap` bytes, then the fewest bytes for that interval. An error that
// tells the least bytes with which the program is live if the cap is below them.
SlotPlan best_slots(const SlotProblem& problem, std::int64_t cap, const SlotLimits& limits = {});

}  // namespace karez::solve
