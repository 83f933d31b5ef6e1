// Adds values, windows, copies and calls to a local program, and chooses kernels.
#include "karez/passes/lowering/local_program_builder.h"

#include "karez/base/attr_cast.h"
#include "karez/passes/lowering/dimension_order.h"
#include "karez/passes/lowering/stride_choice.h"
#include "karez/sbp/transition.h"

namespace karez::passes {

LocalProgramBuilder::LocalProgramBuilder(const Graph& graph, const DimensionOrders& orders,
                                         const KernelCatalog& catalog, const CompileOptions& options)
    : graph_(graph),
      own_(own_devices(graph, options.rank)),
      orders_(orders),
      catalog_(catalog),
      options_(options) {
  require(!own_.empty(), "localise: no mesh of the graph has a device of rank ", options.rank);
  local_ids_.assign(own_.size(), ById<ValueId, LocalId>(graph_.values.size()));
}

void LocalProgramBuilder::begin_segment(SegmentId id, int device) {
  program_.segments.emplace_back(id, device);
  copies_.clear();
}

int LocalProgramBuilder::position(ValueId value) const {
  return position_on(graph_.mesh(value), own_[static_cast<std::size_t>(device_)]);
}

Box LocalProgramBuilder::box_of(ValueId value) const {
  return local_box(graph_.type(value).shape, graph_.mesh(value), *graph_.value(value).layout, position(value));
}

LocalId LocalProgramBuilder::add(LocalValue value) {
  LocalId id = program_.values.add(std::move(value));
  if (!local(id).root.valid()) local(id).root = id;
  return id;
}

LocalValue LocalProgramBuilder::new_value(ValueId value, View view, Box box) {
  return {value, device_, std::move(box), std::move(view), {}, 0, current_segment().segment, -1, false};
}

View LocalProgramBuilder::dense_view(ValueId value, const Shape& shape) const {
  const Ints& order = orders_[value];
  return order.empty() ? View(graph_.type(value).dtype, shape) : view_in_order(graph_.type(value).dtype, shape, order);
}

LocalId LocalProgramBuilder::add_window(ValueId value, LocalId source, View view, std::int64_t offset, Box box) {
  LocalValue window = local(source);
  window.value = value;
  window.device = device_;
  window.view = std::move(view);
  window.offset += offset;
  window.box = std::move(box);
  return add(std::move(window));
}

LocalId LocalProgramBuilder::add_splat(ValueId value, DType dtype, const Attr& number, const Box& box) {
  auto key = std::make_tuple(device_, dtype, Attrs().set("value", number).print());
  auto found = splats_.find(key);
  if (found == splats_.end()) {
    LocalValue element = new_value({}, View(dtype, {}), {});
    element.constant = true;
    element.segment = {};
    LocalId id = add(std::move(element));
    LocalCall call;
    call.spec.op = "constant";
    call.spec.attrs.set("value", number);
    call.spec.out = {local(id).view};
    call.out = {id};
    choose_kernel(call);
    program_.setup.push_back(std::move(call));
    found = splats_.emplace(key, id).first;
  }
  Shape shape = shape_of(box);
  return add_window(value, found->second, View(dtype, shape, Strides(shape.size(), 0)), 0, box);
}

void LocalProgramBuilder::choose_kernel(LocalCall& call) {
  auto choice = catalog_.find(call.spec);
  if (!choice.has_value())
    fail(ErrorKind::device, "no kernel supports ", print(call.spec), "; ", catalog_.list(call.spec.op));
  call.kernel = choice->kernel;
  call.workspace = choice->workspace;
}

LocalId LocalProgramBuilder::copy_to(LocalId source, const View& view) {
  auto key = std::make_pair(source, print(view));
  auto found = copies_.find(key);
  if (found != copies_.end()) return found->second;
  LocalId copy = add(new_value({}, view, local(source).box));
  LocalCall call;
  call.spec.op = "copy";
  call.spec.in = {local(source).view};
  call.spec.out = {view};
  call.in = {source};
  call.out = {copy};
  call.node = node_;
  choose_kernel(call);
  current_segment().calls.push_back(std::move(call));
  ++program_.copies;
  copies_.emplace(key, copy);
  return copy;
}

void LocalProgramBuilder::make_dense(ValueId value) {
  const View& view = local(at(value)).view;
  View dense = dense_view(value, view.shape);
  if (same_order(view.shape, view.strides, dense.strides)) return;
  LocalId copy = copy_to(at(value), dense);
  local(copy).value = value;  // from now on the copy represents the value on this device, with the value's slots
  define(value, copy);
}

void LocalProgramBuilder::add_call(LocalCall call, const Cost& work) {
  auto choice = choose_strides(catalog_, options_.costs, call.spec, work);
  if (!choice.has_value())
    fail(ErrorKind::device, "no kernel supports ", print(call.spec), " of ", describe(graph_, node_), "; ",
         catalog_.list(call.spec.op));
  for (std::size_t i = 0; i < call.in.size(); ++i)
    if (choice->copied[i]) call.in[i] = copy_to(call.in[i], choice->call.in[i]);
  call.spec = std::move(choice->call);
  call.kernel = choice->choice.kernel;
  call.workspace = choice->choice.workspace;
  current_segment().calls.push_back(std::move(call));
}

int LocalProgramBuilder::team_of(const Cost& work) const {
  if (options_.team == 1) return 1;
  constexpr double min_seconds = 1.5e-5;  // below this, waking a second thread costs more than it saves
  return options_.costs.seconds(work) >= min_seconds ? options_.team : 1;
}

}  // namespace karez::passes
