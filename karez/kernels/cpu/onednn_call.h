// A short program of oneDNN primitives for one kernel: built once for a call's exact views and team, then run on
// addresses only.
#pragma once

#include <omp.h>

#include <cstdint>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// oneDNN queries OpenMP's number of threads both when a primitive is made and when it runs; the two must agree.
class OneDnnTeam {
 public:
  explicit OneDnnTeam(int team) : before_(omp_get_max_threads()) {
    if (before_ != team) omp_set_num_threads(team);
    team_ = team;
  }
  ~OneDnnTeam() {
    if (before_ != team_) omp_set_num_threads(before_);
  }
  OneDnnTeam(const OneDnnTeam&) = delete;
  OneDnnTeam& operator=(const OneDnnTeam&) = delete;

 private:
  int before_, team_ = 1;
};

// Primitives run in the order of `add`. Scratchpads and blocked copies of operands are in the kernel's workspace.
class OneDnnCall {
 public:
  explicit OneDnnCall(int team) : team_(team), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  const dnnl::engine& engine() const { return engine_; }
  static dnnl::primitive_attr attributes();  // the caller supplies the scratchpad
  int input(int index, const dnnl::memory::desc& desc) { return bind(MemorySource::in, index, desc); }
  int output(int index, const dnnl::memory::desc& desc) { return bind(MemorySource::out, index, desc); }
  int temporary(const dnnl::memory::desc& desc);
  // `memory` in the format `desc`: itself, or a temporary that an added reorder fills from it.
  int reordered(int memory, const dnnl::memory::desc& desc);
  void reorder(int from, int to);
  void add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
           std::initializer_list<std::pair<int, int>> args);
  const dnnl::memory::desc& desc(int memory) const { return bound_[static_cast<std::size_t>(memory)].desc; }
  // Ends the program with ReLU in place on the first output, which is dense. It is not a post-operation, because each
  // that oneDNN 2.6 has for this (eltwise relu and clip, binary max) turns NaN into 0. The result of the product is
  // still in the caches, so this takes 1 or 2 per cent of the product's time.
  void add_relu(const View& y);

  std::int64_t workspace() const { return workspace_; }
  void run(const KernelArgs& args);  // not by two threads at a time

 private:
  enum class MemorySource : std::uint8_t { in, out, workspace };
  struct BoundMemory {
    MemorySource from;
    std::int64_t at;  // operand number, or byte offset in the workspace
    dnnl::memory::desc desc;
    dnnl::memory memory;
    void* address = nullptr;
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> args;
  };
  int bind(MemorySource from, std::int64_t at, const dnnl::memory::desc& desc);

  int team_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<BoundMemory> bound_;
  std::vector<Step> steps_;
  void (*relu_)(std::int64_t begin, std::int64_t end, const void* const* in, const std::uint8_t* in_is_scalar,
                void* out) = nullptr;
  std::int64_t relu_count_ = 0;
  std::int64_t workspace_ = 0;
};

// Whether it is one of oneDNN's reference implementations ("ref" in its name), which are far too slow.
bool is_reference(const char* implementation);

// Adds a call's primitives to the plan and names the implementation of the main one; false, or dnnl::error, if oneDNN
// has no fast one.
using OneDnnBuild = bool (*)(OneDnnCall& plan, const CallSpec& call, std::string& implementation);
bool onednn_matmul(OneDnnCall& plan, const CallSpec& call, std::string& implementation);
bool onednn_conv2d(OneDnnCall& plan, const CallSpec& call, std::string& implementation);
bool onednn_conv2d_grad_input(OneDnnCall& plan, const CallSpec& call, std::string& implementation);
bool onednn_conv2d_grad_weight(OneDnnCall& plan, const CallSpec& call, std::string& implementation);
bool onednn_avg_pool(OneDnnCall& plan, const CallSpec& call, std::string& implementation);
bool onednn_avg_pool_grad(OneDnnCall& plan, const CallSpec& call, std::string& implementation);

dnnl::memory::data_type onednn_type(DType dtype);  // f32 or bf16
// Whether oneDNN has products of these types: f32 of f32, and bf16 or f32 of bf16.
bool onednn_supports_product(const View& a, const View& b, const View& y);

// Strides as oneDNN requires them: those of dimensions of size one, which are arbitrary, are adapted to the others.
dnnl::memory::desc onednn_desc(const View& view);

}  // namespace karez::kernels
