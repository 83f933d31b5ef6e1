// Contains the golden table of sharding equivalence. It lists for each op how many combinations of case, mesh and
// sharding its signature allows, and whether it has a gradient. `./dev test --update ShardingEquivalence` adds the line
// of a new op.
#pragma once

#include "tests/namespace.h"

namespace karez::tests {

inline constexpr const char* shardings_of_each_op = R"(abs 57, differentiable
abs_grad 58, differentiable
adam 71
adam_if 52
add 142, differentiable
add_along 96, differentiable
and 38
arg_max 33
assign 19
avg_pool 58, differentiable
avg_pool_grad 58, differentiable
broadcast 118, differentiable
cast 105, differentiable
concat 60, differentiable
constant 38
conv2d 217, differentiable
conv2d_grad_input 133, differentiable
conv2d_grad_weight 133, differentiable
copy 83, differentiable
cos 38, differentiable
cos_grad 58, differentiable
cumsum 67, differentiable
div 48, differentiable
div_grad 41, differentiable
eq 49
erf 38, differentiable
erf_grad 58, differentiable
exp 38, differentiable
gather 112, differentiable
ge 57
gelu 38, differentiable
gelu_grad 58, differentiable
gelu_tanh 38, differentiable
gelu_tanh_grad 58, differentiable
gt 57
iota 30
layout 83, differentiable
le 57
log 19, differentiable
lt 57
matmul 254, differentiable
max 57, differentiable
max_grad 58, differentiable
max_pool 57, differentiable
max_pool_grad 58, differentiable
min 57, differentiable
min_grad 58, differentiable
mul 123, differentiable
ne 38
neg 87, differentiable
not 38
one_hot 48
or 38
pad 30, differentiable
pointwise 79, differentiable
pow 19, differentiable
pow_grad 29, differentiable
pow_grad2 41, differentiable
random_uniform 19
reduce_max 48, differentiable
reduce_min 38, differentiable
reduce_sum 125, differentiable
relu 79, differentiable
relu_grad 58, differentiable
reshape 300, differentiable
resize 89, differentiable
resize_grad 48, differentiable
rsqrt 19, differentiable
rsqrt_grad 29, differentiable
scatter_add 82, differentiable
select 58, differentiable
select_grad 58, differentiable
select_grad2 58, differentiable
sgd 38
sgd_if 38
sigmoid 38, differentiable
sigmoid_grad 58, differentiable
silu 38, differentiable
silu_grad 58, differentiable
sin 38, differentiable
sin_grad 58, differentiable
slice 98, differentiable
sort 55, differentiable
sqrt 19, differentiable
sqrt_grad 29, differentiable
stop_gradient 58, differentiable
sub 87, differentiable
take_along 96, differentiable
tanh 38, differentiable
tanh_grad 58, differentiable
transpose 148, differentiable
)";

}  // namespace karez::tests
