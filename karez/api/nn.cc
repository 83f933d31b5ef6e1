// The module tree, and the layers. Each layer calls functions of tensors with the user's line and the module's path.
#include "karez/api/nn.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <cmath>

#include "karez/api/trace/trace.h"
#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/ops/compose.h"

namespace karez::nn {

// The state that all modules of one model share.
struct Module::Tree {
  DType dtype;
  std::vector<Parameter> parameters, buffers;
  std::vector<std::string> paths;
};

Module::Module(std::string name, DType dtype)
    : tree_(std::make_shared<Tree>(Tree{dtype, {}, {}, {}})),
      path_(std::move(name)) {
  require(ErrorKind::type, is_float(dtype), "the dtype of a model must be f32 or f64, got ", name_of(dtype));
}

Module::Module(Module& parent, const std::string& name)
    : tree_(parent.tree_),
      path_(parent.path_.empty() ? name : cat(parent.path_, ".", name)) {
  require(!name.empty() && name.find('.') == name.npos, "a sub-module of '", parent.path_, "' is named '", name,
          "'; names must not be empty or contain a dot");
  auto& paths = tree_->paths;
  require(std::find(paths.begin(), paths.end(), path_) == paths.end(), "two modules are named '", path_, "'");
  paths.push_back(path_);
}

DType Module::dtype() const { return tree_->dtype; }

std::vector<Parameter> Module::in_subtree(const std::vector<Parameter>& list) const {
  std::vector<Parameter> out;
  for (const auto& parameter : list)
    if (path_.empty() || starts_with(parameter.name(), path_ + ".")) out.push_back(parameter);
  return out;
}

std::vector<Parameter> Module::parameters() const { return in_subtree(tree_->parameters); }
std::vector<Parameter> Module::buffers() const { return in_subtree(tree_->buffers); }
std::vector<Parameter> Module::state() const {
  std::vector<Parameter> out = parameters();
  const std::vector<Parameter> untrained = buffers();
  out.insert(out.end(), untrained.begin(), untrained.end());
  return out;
}

std::vector<std::pair<std::string, Parameter>> Module::named_parameters() const {
  std::vector<std::pair<std::string, Parameter>> out;
  for (auto& parameter : parameters()) out.emplace_back(parameter.name(), parameter);
  return out;
}

Parameter Module::parameter(std::string_view path) const {
  std::vector<Parameter> all = tree_->parameters;
  all.insert(all.end(), tree_->buffers.begin(), tree_->buffers.end());
  for (const auto& parameter : all)
    if (parameter.name() == path) return parameter;
  fail("unknown parameter '", path, "'; ", suggest_names(path, all, [](const Parameter& p) { return p.name(); }));
}

Parameter Module::add(std::vector<Parameter>& list, const std::string& name, TensorType type, Initialiser init) {
  Parameter parameter(path_.empty() ? name : cat(path_, ".", name), std::move(type), std::move(init));
  for (const auto* others : {&tree_->parameters, &tree_->buffers})
    for (const auto& other : *others)
      require(other.name() != parameter.name(), "two parameters are named '", parameter.name(), "'");
  list.push_back(parameter);
  parameter.set_model_buffers([weak_tree = std::weak_ptr<const Tree>(tree_)] {
    const std::shared_ptr<const Tree> tree = weak_tree.lock();
    return tree == nullptr ? std::vector<Parameter>() : tree->buffers;
  });
  return parameter;
}

Parameter Module::make_parameter(const std::string& name, Shape shape, Initialiser init) {
  return add(tree_->parameters, name, {tree_->dtype, std::move(shape)}, std::move(init));
}
Parameter Module::make_buffer(const std::string& name, TensorType type, Initialiser init) {
  return add(tree_->buffers, name, std::move(type), std::move(init));
}

namespace {

// Calls the function in the scope of the layer's path.
template <class Function> Tensor at_path(const Term& x, const std::string& path, Function&& function) {
  return at_line(x.where, path, [&](Trace&) { return function(x); });
}

}  // namespace

Linear::Linear(Module& parent, const std::string& name, std::int64_t in, std::int64_t out, bool with_bias)
    : Module(parent, name),
      has_bias(with_bias) {
  require(in >= 1 && out >= 1, "Linear '", path(), "': in and out must be at least 1, got ", in, " and ", out);
  auto init = uniform_init(1 / std::sqrt(static_cast<double>(in)));
  weight = make_parameter("weight", {out, in}, init);
  if (has_bias) bias = make_parameter("bias", {out}, init);
}

Tensor Linear::operator()(Term x) const {
  return at_path(x, path(), [&](const Term& v) { return has_bias ? linear(v, weight, bias) : linear(v, weight); });
}

Conv2d::Conv2d(Module& parent, const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel,
               ConvShape s)
    : Module(parent, name),
      shape(s) {
  require(in >= 1 && out >= 1 && kernel >= 1, "Conv2d '", path(), "': in, out and kernel must be at least 1, got ", in,
          ", ", out, " and ", kernel);
  require(s.stride >= 1 && s.padding >= 0, "Conv2d '", path(),
          "': stride must be at least 1 and padding at least 0, got ", s.stride, " and ", s.padding);
  auto init =
      uniform_init(1 / std::sqrt(static_cast<double>(in) * static_cast<double>(kernel) * static_cast<double>(kernel)));
  weight = make_parameter("weight", {out, in, kernel, kernel}, init);
  if (s.bias) bias = make_parameter("bias", {out}, init);
}

Tensor Conv2d::operator()(Term x) const {
  const Conv2dOptions options{.stride = {shape.stride, shape.stride}, .padding = {shape.padding, shape.padding}};
  return at_path(x, path(), [&](const Term& v) {
    return shape.bias ? conv2d(v, weight, bias, options) : conv2d(v, weight, options);
  });
}

namespace {

void check_pool(std::string_view layer, const std::string& path, std::int64_t kernel, std::int64_t stride,
                std::int64_t padding) {
  require(kernel >= 1 && stride >= 0 && padding >= 0, layer, " '", path,
          "': kernel must be at least 1, and stride and padding at least 0; got kernel ", kernel, ", stride ", stride,
          ", padding ", padding);
}

}  // namespace

MaxPool2d::MaxPool2d(Module& parent, const std::string& name, std::int64_t k, std::int64_t s, std::int64_t p)
    : Module(parent, name),
      kernel(k),
      stride(s),
      padding(p) {
  check_pool("MaxPool2d", path(), k, s, p);
}
Tensor MaxPool2d::operator()(Term x) const {
  return at_path(x, path(), [&](const Term& v) { return max_pool(v, kernel, stride, padding); });
}

AvgPool2d::AvgPool2d(Module& parent, const std::string& name, std::int64_t k, std::int64_t s, std::int64_t p)
    : Module(parent, name),
      kernel(k),
      stride(s),
      padding(p) {
  check_pool("AvgPool2d", path(), k, s, p);
}
Tensor AvgPool2d::operator()(Term x) const {
  return at_path(x, path(), [&](const Term& v) { return avg_pool(v, kernel, stride, padding); });
}

Dropout::Dropout(Module& parent, const std::string& name, double probability) : Module(parent, name), p(probability) {
  require(p >= 0 && p < 1, "Dropout '", path(), "': the probability must be in [0, 1), got ", p);
}
Tensor Dropout::operator()(Term x) const {
  return at_path(x, path(), [&](const Term& v) { return dropout(v, p); });
}

Tensor ReLU::operator()(Term x) const {
  return at_path(x, path(), [](const Term& v) { return relu(v); });
}
Tensor Tanh::operator()(Term x) const {
  return at_path(x, path(), [](const Term& v) { return tanh(v); });
}
Tensor GELU::operator()(Term x) const {
  return at_path(x, path(), [](const Term& v) { return gelu(v); });
}
Tensor SiLU::operator()(Term x) const {
  return at_path(x, path(), [](const Term& v) { return silu(v); });
}

Embedding::Embedding(Module& parent, const std::string& name, std::int64_t count, std::int64_t width,
                     std::optional<std::int64_t> pad)
    : Module(parent, name),
      padding(pad) {
  require(count >= 1 && width >= 1, "Embedding '", path(), "': count and width must be at least 1, got ", count,
          " and ", width);
  if (padding) {
    require(*padding >= -count && *padding < count, "Embedding '", path(), "': padding row ", *padding,
            " does not exist; there are ", count, " rows");
    if (*padding < 0) *padding += count;
  }
  weight = make_parameter("weight", {count, width}, padding ? zero_row_init(normal_init(1), *padding) : normal_init(1));
}
Tensor Embedding::operator()(Term index) const {
  return at_path(index, path(), [&](const Term& v) {
    const Tensor rows = gather(Term(weight, v.where), v);
    if (!padding) return rows;
    const Tensor is_padding = equal(v, Term(*padding, v.where));
    Shape shape = is_padding.shape();
    shape.push_back(1);
    return where(Term(reshape(Term(is_padding, v.where), shape), v.where),
                 Term(stop_gradient(Term(rows, v.where)), v.where), Term(rows, v.where));
  });
}

namespace {

Shape checked_shape(std::string_view layer, const std::string& path, Shape shape, double eps) {
  require(!shape.empty() && std::all_of(shape.begin(), shape.end(), [](auto size) { return size >= 1; }), layer, " '",
          path, "': shape must list the sizes of the last dimensions, each at least 1; got ", shape);
  require(std::isfinite(eps) && eps >= 0, layer, " '", path, "': eps is ", eps, "; it must be finite and at least 0");
  return shape;
}

}  // namespace

LayerNorm::LayerNorm(Module& parent, const std::string& name, Shape shape, double e) : Module(parent, name), eps(e) {
  shape = checked_shape("LayerNorm", path(), std::move(shape), eps);
  weight = make_parameter("weight", shape, constant_init(1));
  bias = make_parameter("bias", shape, constant_init(0));
}
Tensor LayerNorm::operator()(Term x) const {
  return at_path(x, path(), [&](const Term& v) { return layer_norm(v, weight, bias, eps); });
}

RMSNorm::RMSNorm(Module& parent, const std::string& name, Shape shape, std::optional<double> e)
    : Module(parent, name),
      eps(e) {
  weight =
      make_parameter("weight", checked_shape("RMSNorm", path(), std::move(shape), eps.value_or(0)), constant_init(1));
}
Tensor RMSNorm::operator()(Term x) const {
  return at_path(x, path(), [&](const Term& v) { return rms_norm(v, weight, eps); });
}

namespace {

// Checks the options, and returns the total width of the keys (or of the values) of all heads.
std::int64_t checked_kv_width(const std::string& path, std::int64_t width, std::int64_t heads,
                              const AttentionShape& s) {
  require(width >= 1 && heads >= 1 && width % heads == 0, "MultiHeadAttention '", path, "': ", heads,
          " heads do not divide a width of ", width);
  const std::int64_t kv_heads = s.kv_heads == 0 ? heads : s.kv_heads;
  require(kv_heads >= 1 && heads % kv_heads == 0, "MultiHeadAttention '", path, "': ", kv_heads,
          " key heads do not divide ", heads, " query heads");
  require(!s.rotary || width / heads % 2 == 0, "MultiHeadAttention '", path,
          "': rotary positions need an even head size, got width / heads = ", width / heads);
  require(s.dropout >= 0 && s.dropout < 1, "MultiHeadAttention '", path,
          "': the dropout probability must be in [0, 1), got ", s.dropout);
  return width / heads * kv_heads;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(Module& parent, const std::string& name, std::int64_t width, std::int64_t h,
                                       AttentionShape s)
    : Module(parent, name),
      heads(h),
      shape(s),
      query(*this, "query", width, width, s.bias),
      key(*this, "key", width, checked_kv_width(path(), width, h, s), s.bias),
      value(*this, "value", width, checked_kv_width(path(), width, h, s), s.bias),
      out(*this, "out", width, width, s.bias) {}

Tensor MultiHeadAttention::operator()(Term x) const { return attend(x, nullptr); }
Tensor MultiHeadAttention::operator()(Term x, Term mask) const { return attend(x, &mask); }

Tensor MultiHeadAttention::attend(const Term& x, const Term* mask) const {
  return at_line(x.where, path(), [&](Trace& t) {
    auto line = [&](auto tensor) { return Term(std::move(tensor), x.where); };
    const TensorType type = t.graph.type(t.value(x));
    require(ErrorKind::shape, type.rank() == 3, "MultiHeadAttention: x must have shape [n, t, width], got ", type);
    auto split = [&](const Linear& layer, std::int64_t num_heads) {  // [n, t, num_heads * d] -> [n, num_heads, t, d]
      Tensor y = layer(line(std::get<Tensor>(x.value)));
      return transpose(line(reshape(line(y), {type.shape[0], type.shape[1], num_heads, -1})), {0, 2, 1, 3});
    };
    const std::int64_t kv_heads = shape.kv_heads == 0 ? heads : shape.kv_heads;
    Tensor q = split(query, heads), k = split(key, kv_heads), v = split(value, kv_heads);
    if (shape.rotary) {
      const RotaryOptions rotary_options{.base = shape.rotary_base};
      q = karez::rotary(line(q), rotary_options), k = karez::rotary(line(k), rotary_options);
    }
    const AttentionOptions options{.causal = shape.causal};
    Tensor y = mask == nullptr ? scaled_dot_product_attention(line(q), line(k), line(v), options)
                               : scaled_dot_product_attention(line(q), line(k), line(v), *mask, options);
    y = out(line(reshape(line(transpose(line(y), {0, 2, 1, 3})), {type.shape[0], type.shape[1], -1})));
    return shape.dropout > 0 ? karez::dropout(line(y), shape.dropout) : y;
  });
}

Tensor Flatten::operator()(Term x) const {
  return at_path(x, path(), [](const Term& v) { return flatten(v); });
}

Tensor Sequential::operator()(Term x) const {
  require(!layers_.empty(), "Sequential '", path(), "' has no layers");
  SourceLine line = x.where;
  for (const auto& layer : layers_) x = Term(layer(x), line);
  return std::get<Tensor>(x.value);
}

}  // namespace karez::nn
