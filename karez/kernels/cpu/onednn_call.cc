// Runs oneDNN primitives on plain addresses. Memory objects are made once; a run sets their data handles and executes
// the primitives.
#include "karez/kernels/cpu/onednn_call.h"

#include <cstring>

#include "karez/kernels/cpu/pointwise_generated.h"
#include "karez/kernels/cpu/team.h"

namespace karez::kernels {
bool is_reference(const char* implementation) { return std::strstr(implementation, "ref") != nullptr; }

dnnl::primitive_attr OneDnnCall::attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

int OneDnnCall::bind(MemorySource from, std::int64_t position, const dnnl::memory::desc& desc) {
  bound_.push_back(
      {from, position, desc, use_ == OneDnnUse::run ? dnnl::memory(desc, engine_, nullptr) : dnnl::memory()});
  return static_cast<int>(bound_.size()) - 1;
}

int OneDnnCall::temporary(const dnnl::memory::desc& desc) {
  const int id = bind(MemorySource::workspace, workspace_, desc);
  workspace_ += round_up(static_cast<std::int64_t>(desc.get_size()), 64);
  return id;
}

int OneDnnCall::reorder_to(int memory, const dnnl::memory::desc& required) {
  if (desc(memory) == required) return memory;
  const int out = temporary(required);
  reorder(memory, out);
  return out;
}

void OneDnnCall::reorder(int from, int to) {
  const dnnl::reorder::primitive_desc pd(engine_, desc(from), engine_, desc(to), attributes());
  add<dnnl::reorder>(pd, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void OneDnnCall::add_step(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
                          std::initializer_list<std::pair<int, int>> args) {
  const int scratch = scratchpad.get_size() > 0 ? temporary(scratchpad) : -1;
  if (use_ == OneDnnUse::describe) return;
  Step step{primitive, {}};
  for (const auto& [arg, memory] : args)
    step.args.push_back({arg, bound_[static_cast<std::size_t>(memory)].memory.get()});
  if (scratch >= 0) step.args.push_back({DNNL_ARG_SCRATCHPAD, bound_[static_cast<std::size_t>(scratch)].memory.get()});
  steps_.push_back(std::move(step));
}

namespace {

// Runs in place. As in `max(x, 0)`, NaN remains NaN and -0 becomes 0.
void relu_of_bf16(std::int64_t begin, std::int64_t end, const void* const*, const std::uint8_t*, void* y) {
  auto* bits = static_cast<std::uint16_t*>(y);
  for (std::int64_t i = begin; i < end; ++i)
    bits[i] = bits[i] >= 0x8000 && bits[i] <= 0xFF80 ? std::uint16_t{0} : bits[i];
}

}  // namespace

void OneDnnCall::add_relu(const View& y) {
  relu_count_ = y.count();
  if (y.dtype == DType::bf16) relu_ = relu_of_bf16;
  if (relu_ != nullptr) return;
  for (const GeneratedPointwise& row : generated_pointwise())
    if (std::string_view(row.expr) == "max(x0, 0)") relu_ = row.run;
  require(relu_ != nullptr, "the generated pointwise kernels do not include ReLU");
}

void OneDnnCall::run(const KernelArgs& args) {
  const OneDnnTeam scope(team_);
  for (BoundMemory& b : bound_) {
    const auto operand = static_cast<std::size_t>(b.position);
    void* address = b.from == MemorySource::in    ? args.in[operand]
                    : b.from == MemorySource::out ? args.out[operand]
                                                  : args.workspace + b.position;
    if (address == b.address) continue;  // setting a handle clears the padding of a blocked format each time
    dnnl_memory_set_data_handle(b.memory.get(), address);
    b.address = address;
  }
  for (const Step& step : steps_) {  // the C++ wrapper would build a hash map and a vector at each execution
    const dnnl_status_t status = dnnl_primitive_execute(step.primitive.get(), stream_.get(),
                                                        static_cast<int>(step.args.size()), step.args.data());
    require(ErrorKind::device, status == dnnl_success, "oneDNN failed to execute a primitive: status ",
            static_cast<int>(status));
  }
  if (relu_ == nullptr) return;
  constexpr std::int64_t grain = 32768;  // fewer elements are not worth a second thread
  constexpr std::uint8_t dense = 0;
  void* y = args.out[0];
  parallel_for(team_, relu_count_, grain,
               [&](std::int64_t begin, std::int64_t end, int) { relu_(begin, end, &y, &dense, y); });
}

dnnl::memory::data_type onednn_type(DType dtype) {
  require(dtype == DType::f32 || dtype == DType::bf16, "the oneDNN kernels do not support ", dtype);
  return dtype == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

bool onednn_supports_product(const View& a, const View& b, const View& y) {
  return a.dtype == b.dtype && (a.dtype == DType::f32 || a.dtype == DType::bf16) &&
         (y.dtype == DType::f32 || y.dtype == a.dtype);
}

dnnl::memory::desc onednn_desc(const View& view) {
  dnnl::memory::dims strides = view.strides;
  std::int64_t outer_stride = 1;  // the stride that an additional outermost dimension would have
  for (std::size_t d = 0; d < strides.size(); ++d)
    outer_stride = std::max(outer_stride, view.shape[d] == 1 ? 1 : view.shape[d] * strides[d]);
  bool has_unit_stride = false;  // whether a dimension has stride 1; the last dimension gets it if possible
  for (std::size_t d = strides.size(); d-- > 0;) {
    if (view.shape[d] == 1) strides[d] = d + 1 == strides.size() || !has_unit_stride ? 1 : outer_stride;
    has_unit_stride = has_unit_stride || strides[d] == 1;
  }
  return {view.shape, onednn_type(view.dtype), strides};
}

}  // namespace karez::kernels
