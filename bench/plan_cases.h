// The saved programs of bench/plans, with meshes, costs and targets.
#pragma once

#include <string>

#include "bench/namespace.h"

namespace karez::bench {

struct PlanCase {
  std::string name;
  std::string graph;   // file in bench/plans, without ".graph"
  std::string mesh;    // "": the meshes of the graph
  double max_gap;      // percent
  double max_seconds;  // 0: half a second plus 3 s per 1,000 nodes
  std::string costs = "costs.txt";
  double max_bytes = 100e6;
};
inline const PlanCase saved_plan_cases[] = {
    {"gpt1-4", "gpt1", "data=4", 0, 0},  // GPTs of width 64 on 8 x 16 tokens with Adam, named by the number of layers
    {"gpt1", "gpt1", "data=2,model=2", 0, 0},
    {"gpt4", "gpt4", "data=2,model=2", 2, 0},
    {"gpt12-4", "gpt12", "data=4", 0, 0},
    {"gpt12", "gpt12", "data=2,model=2", 2, 0},
    {"gpt1-4x3", "gpt1", "data=4,model=3", 3, 0},
    {"gpt1-slow", "gpt1", "slow=2,model=2", 3, 0},
    {"gpt4-slow", "gpt4", "slow=2,model=2", 3, 0},
    {"gpt_wide", "gpt_wide", "data=2,model=2", 3, 0},  // one layer of width 1,024 on 8 x 512 tokens
    {"gpt_mixed", "gpt_mixed", "data=2,model=2", 3, 0, "costs.txt", 105e6},  // layers of widths 64, 128, 96
    {"resnet", "resnet", "data=2,model=2", 3, 0},
    {"gpt2-2x2x2", "gpt2", "data=2,model=2,more=2", 9, 20, "costs.txt", 170e6},
    {"gpt2-rates", "gpt2_rates", "data=2,model=2", 2, 0,
     "rates.costs"},  // two layers of width 128 on 8 x 32 tokens, with measured rates
    {"encoder_decoder", "encoder_decoder", "data=4,model=2", 3, 0,
     "rates.costs"},  // this case and the next two come from bench/plans_models.py
    {"gru", "gru", "data=4,model=2", 3, 0, "rates.costs"},
    {"residual_norm", "residual_norm", "data=4,model=2", 3, 0, "rates.costs"},
    {"gpt2-stages", "gpt2_stages", "", 3, 0},  // two layers in two stages, each on data=2,model=2
};

}  // namespace karez::bench
