// A sequence of oneDNN primitives for one kernel. It is built once for the exact views and team of a call; a run needs
// only the addresses of the operands.
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

// Sets OpenMP's number of threads for the lifetime of the object. oneDNN reads this number when a primitive is made and
// when it runs; the number must be the same both times.
class OneDnnTeam {
 public:
  explicit OneDnnTeam(int team) : old_threads_(omp_get_max_threads()) {
    if (old_threads_ != team) omp_set_num_threads(team);
    team_ = team;
  }
  ~OneDnnTeam() {
    if (old_threads_ != team_) omp_set_num_threads(old_threads_);
  }
  OneDnnTeam(const OneDnnTeam&) = delete;
  OneDnnTeam& operator=(const OneDnnTeam&) = delete;

 private:
  int old_threads_, team_ = 1;
};

// What a OneDnnCall is made for. The compiler asks for descriptions of many calls that it then merges with others;
// they do not need the primitives, because generating the code of one takes up to a millisecond.
enum class OneDnnUse : std::uint8_t { describe, run };

// Primitives run in the order of `add`. Scratchpads and blocked copies of operands are in the kernel's workspace.
class OneDnnCall {
 public:
  OneDnnCall(int team, OneDnnUse use) : team_(team), use_(use), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  const dnnl::engine& engine() const { return engine_; }
  static dnnl::primitive_attr attributes();  // with a scratchpad that the caller supplies
  int input(int index, const dnnl::memory::desc& desc) { return bind(MemorySource::in, index, desc); }
  int output(int index, const dnnl::memory::desc& desc) { return bind(MemorySource::out, index, desc); }
  int temporary(const dnnl::memory::desc& desc);
  // Returns `memory` if it has the format `desc`. Otherwise adds a reorder into a temporary and returns the temporary.
  int reorder_to(int memory, const dnnl::memory::desc& desc);
  void reorder(int from, int to);
  template <class Primitive>
  void add(const typename Primitive::primitive_desc& description, std::initializer_list<std::pair<int, int>> args) {
    add_step(use_ == OneDnnUse::run ? Primitive(description) : dnnl::primitive(), description.scratchpad_desc(), args);
  }
  const dnnl::memory::desc& desc(int memory) const { return bound_[static_cast<std::size_t>(memory)].desc; }
  // Appends an in-place ReLU on the first output, which must be dense. No oneDNN post-operation is used, because
  // eltwise relu, eltwise clip and binary max of oneDNN 2.6 turn NaN into 0. The result of the product is still in the
  // caches, so the ReLU takes 1 or 2 per cent of the product's time.
  void add_relu(const View& y);

  std::int64_t workspace() const { return workspace_; }
  void run(const KernelArgs& args);  // only if made for OneDnnUse::run; not on two threads at the same time

 private:
  enum class MemorySource : std::uint8_t { in, out, workspace };
  struct BoundMemory {
    MemorySource from;
    std::int64_t position;  // number of the operand, or byte offset in the workspace
    dnnl::memory::desc desc;
    dnnl::memory memory;
    void* address = nullptr;
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> args;
  };
  int bind(MemorySource from, std::int64_t position, const dnnl::memory::desc& desc);
  void add_step(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
                std::initializer_list<std::pair<int, int>> args);

  int team_;
  OneDnnUse use_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<BoundMemory> bound_;
  std::vector<Step> steps_;
  void (*relu_)(std::int64_t begin, std::int64_t end, const void* const* in, const std::uint8_t* in_is_scalar,
                void* out) = nullptr;
  std::int64_t relu_count_ = 0;
  std::int64_t workspace_ = 0;
};

// Returns whether `implementation` names a reference implementation of oneDNN ("ref" in its name), which is far too
// slow.
bool is_reference(const char* implementation);

// Adds the primitives of a call to the plan and sets `implementation` to the name of the main one. Returns false or
// throws dnnl::error if oneDNN has no fast implementation.
using OneDnnBuild = bool (*)(OneDnnCall& plan, const CallSpec& call, std::string& implementation);
bool onednn_matmul(OneDnnCall& plan, const CallSpec& call, std::string& implementation);
bool onednn_conv2d(OneDnnCall& plan, const CallSpec& call, std::string& implementation);
bool onednn_conv2d_grad_input(OneDnnCall& plan, const CallSpec& call, std::string& implementation);
bool onednn_conv2d_grad_weight(OneDnnCall& plan, const CallSpec& call, std::string& implementation);
bool onednn_avg_pool(OneDnnCall& plan, const CallSpec& call, std::string& implementation);
bool onednn_avg_pool_grad(OneDnnCall& plan, const CallSpec& call, std::string& implementation);

dnnl::memory::data_type onednn_type(DType dtype);  // f32 or bf16
// Returns whether oneDNN has products of these types: operands f32 with result f32, or bf16 with result bf16 or f32.
bool onednn_supports_product(const View& a, const View& b, const View& y);

// Describes a view with strides that oneDNN accepts: adapts the strides of dimensions of size 1, which are arbitrary.
dnnl::memory::desc onednn_desc(const View& view);

}  // namespace karez::kernels
