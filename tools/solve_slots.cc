// Reads slot problems as text and prints their solutions, which a Python test compares with its own solutions. Lines:
//
//   actor SECONDS ACTS
//   register PRODUCER PERIOD BYTES LEAST MOST FILLED CONSUMER PERIOD [CONSUMER PERIOD ...]
//   order ACTOR ACT [ACTOR ACT ...]            the acts of one stream, in order
//   interval SECONDS                           solves the problem above for this interval; a new problem begins
//   cap BYTES                                  solves the problem above for this memory limit; a new problem begins
//
// Output per problem: "bytes B bound B interval S least S optimal 0|1 slots N ...", or "error TEXT".
#include <iostream>
#include <sstream>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/solve/slots.h"
#include "tools/namespace.h"

namespace {
using namespace karez::tools;

template <class T> T parse_word(std::istream& line, const char* what) {
  T value{};
  require(ErrorKind::data, static_cast<bool>(line >> value), "solve_slots: expected ", what);
  return value;
}

bool has_more(std::istream& line) { return (line >> std::ws, !line.eof()); }

void print_solution(const SlotProblem& problem, const std::string& kind, std::istream& line) {
  try {
    SlotPlan plan = kind == "cap" ? best_slots(problem, parse_word<std::int64_t>(line, "cap"))
                                  : cheapest_slots(problem, parse_word<double>(line, "interval"));
    std::cout << "bytes " << plan.bytes << " bound " << plan.bound << " interval " << plan.interval << " least "
              << plan.min_interval << " optimal " << plan.optimal << " slots " << join(plan.slots, " ") << std::endl;
  } catch (const Error& error) {
    if (error.kind == ErrorKind::data) throw;
    std::cout << "error " << error.what() << std::endl;
  }
}

void read(std::istream& in) {
  SlotProblem problem;
  for (std::string text; std::getline(in, text);) {
    std::istringstream line(text);
    auto kind = parse_word<std::string>(line, "a line type");
    if (kind == "actor") {
      problem.actors.push_back({parse_word<double>(line, "seconds"), 0});
      problem.actors.back().acts = parse_word<int>(line, "acts");
    } else if (kind == "register") {
      SlotProblem::Register reg;
      reg.producer = parse_word<int>(line, "producer");
      reg.period = parse_word<int>(line, "period");
      reg.bytes = parse_word<std::int64_t>(line, "bytes");
      reg.min_slots = parse_word<int>(line, "least");
      reg.max_slots = parse_word<int>(line, "most");
      reg.filled = parse_word<int>(line, "filled");
      while (has_more(line)) {
        reg.consumers.push_back({parse_word<int>(line, "consumer")});
        reg.consumers.back().period = parse_word<int>(line, "period");
      }
      problem.registers.push_back(std::move(reg));
    } else if (kind == "order") {
      problem.streams.emplace_back();
      while (has_more(line)) {
        problem.streams.back().order.push_back({parse_word<int>(line, "actor")});
        problem.streams.back().order.back().act = parse_word<std::int64_t>(line, "act");
      }
    } else {
      require(ErrorKind::data, kind == "interval" || kind == "cap", "solve_slots: unknown line type '", kind,
              "'; expected one of: actor, register, order, interval, cap");
      print_solution(problem, kind, line);
      problem = {};
    }
  }
}
}  // namespace

int main() {
  std::cout.precision(17);
  try {
    read(std::cin);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
