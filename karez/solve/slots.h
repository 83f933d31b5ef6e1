// Slots for the registers of a synchronous dataflow program. Computes the interval that a slot vector permits, and the
// cheapest slots for an interval.
//
// The model: in each launch an actor acts `acts` times, one act at a time, each for `seconds`. A register moves pieces
// from its producer to its consumers. The producer takes a free slot at the beginning of the first of `period` acts and
// fills it at the end of the last of them. A consumer reads the slot during its `period` acts and returns it at the end
// of the last of them; the slot is free once all consumers have returned it. So each piece g causes two waits. Forward:
// the consumer's first act on the piece waits for the producer's last act. Backward, with s slots: the producer's first
// act for piece g waits for the consumer's last act on piece g - s. The acts of one launch are the nodes of a graph and
// these waits are its edges, with a token for every launch that they reach back. The interval between launches is the
// maximum cycle ratio (cycle_ratio.h). This is exact: if acts begin as early as possible, the interval converges to
// this value. If parts of the program do not wait for each other, the interval of the slowest part converges to it.
//
// On a stream, only one actor acts at a time. A stream with an `order` of acts adds a cycle with one token, which
// models the stream exactly. Without an order, the sum of its actors' seconds is only a lower bound on the interval: a
// scheduler that chooses acts as they become ready may be slower.
//
// With several rates, every act of a launch is a node, so the graph's size is the sum of `acts` (SlotLimits::acts).
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
    double seconds = 0;  // duration of one act; >= 0
    int acts = 1;        // number of acts in a launch
  };
  struct Consumer {
    int actor = 0;
    int period = 1;      // acts during which the consumer holds a slot
    double arrives = 0;  // seconds from the producer's end until the consumer can read
    double returns = 0;  // seconds from the consumer's end until the producer gets the slot back
  };
  struct Register {
    int producer = 0;
    std::vector<Consumer> consumers;  // at least one; each reads all pieces that are produced in a launch
    std::int64_t bytes = 0;           // size of a slot; the slots of registers of 0 bytes are minimised, too
    int min_slots = 1, max_slots = 1;
    int period = 1;  // acts of the producer for each piece
    int filled = 0;  // slots filled before the first launch
  };
  struct Act {
    int actor = 0;
    std::int64_t act = 0;  // number, counted from the first launch; nothing waits for acts below 0, which do not exist
  };
  struct Stream {
    std::vector<int> actors;  // the stream's actors, if no order is known
    std::vector<Act> order;   // otherwise the acts of one launch interval in order; in the next interval, the order is
                              // the same and act numbers are higher by `acts`. The acts of an actor have consecutive
                              // numbers. On the stream {F 0, B -2}, B runs two launches after F
  };
  std::vector<Actor> actors;
  std::vector<Register> registers;
  std::vector<Stream> streams;
};

std::int64_t acts_of(const SlotProblem& problem);  // the acts of all actors in a launch

// Limits are counts, never seconds, so that every rank makes the same decisions.
struct SlotLimits {
  std::int64_t steps = 20'000;  // limit on the slot vectors measured and linear programs solved in one search; 0
                                // returns the greedy answer
  std::int64_t acts = 20'000;   // limit on the acts of all actors in a launch; more acts are an error
};

// A cycle of waits that determines the interval between launches.
struct SlotCycle {
  enum class WaitKind : std::uint8_t {
    data,    // the act of the next step waits for the piece that this act fills
    slot,    // the act of the next step waits for the slot that this act returns
    actor,   // the next step is the same actor's next act
    stream,  // the next step follows this act on its stream
  };
  struct Step {
    int actor = 0, act = 0;  // act within a launch
    WaitKind kind = WaitKind::data;
    int index = 0;  // the register, actor or stream
  };
  double interval = 0;      // seconds / tokens; 0 if there is no cycle; infinite in a deadlock
  double seconds = 0;       // time of all steps of the cycle
  std::int64_t tokens = 0;  // number of launches that the cycle reaches back
  std::vector<Step> steps;  // for a stream without order: the actors of the stream, with one token

  bool is_deadlock() const { return !steps.empty() && tokens <= 0; }  // the program is not live, and `steps` proves it
};
std::string print(
    const SlotCycle& cycle);  // "actor 0 -register 1-> actor 2 -slots of register 1-> actor 0: 3 seconds over 1 token"

struct SlotPlan {
  std::vector<int> slots;   // by register
  double interval = 0;      // seconds between launches with these slots
  std::int64_t bytes = 0;   // size of all slots
  std::int64_t bound = 0;   // a lower bound on the bytes for the requested interval (in best_slots: for `interval`)
  double min_interval = 0;  // in best_slots: a lower bound on the interval of all slots within the cap; in
                            // cheapest_slots: the interval with `max_slots`
  bool optimal = false;     // bytes == bound, and in best_slots also interval == min_interval (to one part in 10^8)
  SlotCycle critical;       // the cycle that determines the interval
};

// Computes the interval with these slots. The interval is exact, or a lower bound if there are streams without order.
// Additional slots never increase it.
SlotCycle interval_of(const SlotProblem& problem, std::span<const int> slots, const SlotLimits& limits = {});

// Finds the slots with the fewest bytes whose interval is at most `interval` (to one part in 10^9; infinity requires
// only liveness). If even `max_slots` do not reach it, throws an error that shows the cycle. If a slot vector is too
// slow, its critical cycle gives a row: a weighted sum of slots that must grow. Branch and bound solves the covering
// program of these rows, which are added as needed. For equal rates, this is the integer program of Govindarajan, Gao
// and Desai, "Minimizing buffer requirements under rate-optimal schedule in regular dataflow networks", 2002.
SlotPlan cheapest_slots(const SlotProblem& problem, double interval, const SlotLimits& limits = {});

// Finds the smallest interval among slots of at most `cap` bytes, then the fewest bytes for that interval. If the
// program is not live within the cap, throws an error that gives the minimum number of bytes with which it is live.
SlotPlan best_slots(const SlotProblem& problem, std::int64_t cap, const SlotLimits& limits = {});

}  // namespace karez::solve
