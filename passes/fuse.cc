// fuse: library post-ops and multi-tensor updates, call by call inside each local segment.
#include "passes/fuse.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/memory.h"

namespace karez::passes {
namespace {

class Fuser {
 public:
  Fuser(Compilation& c, LocalSegment& segment, const std::vector<bool>& crosses) : c_(c), calls_(segment.calls), crosses_(crosses) {}

  void run() {
    count_uses();
    for (std::size_t i = 0; i < calls_.size(); ++i) add_bias(i);
    for (std::size_t i = 0; i < calls_.size(); ++i) add_relu(i);
    merge_updates("adam", 4, 3, 2);
    merge_updates("sgd", 3, 2, 1);
    std::erase_if(calls_, [](const LocalCall& call) { return call.kernel.empty(); });
  }

 private:
  const std::string& op_of(const LocalCall& call) const {
    static const std::string none;
    return call.node.valid() && !call.kernel.empty() ? c_.graph.node(call.node).op->name : none;
  }
  int root(int v) const { return c_.locals[static_cast<std::size_t>(v)].root; }
  const View& view(int v) const { return c_.locals[static_cast<std::size_t>(v)].view; }

  void count_uses() {
    users_.clear();
    for (std::size_t i = 0; i < calls_.size(); ++i)
      for (int in : calls_[i].in) users_[root(in)].push_back(i);
  }

  // The one call that reads what `call` makes, if nobody else does.
  LocalCall* only_reader(const LocalCall& call) {
    int out = root(call.out[0]);
    auto at = users_.find(out);
    if (at == users_.end() || at->second.size() != 1 || crosses_[static_cast<std::size_t>(out)] ||
        c_.locals[static_cast<std::size_t>(out)].variable >= 0)
      return nullptr;
    return &calls_[at->second[0]];
  }

  bool takes(const LocalCall& call) const { return call.spec.op == "matmul" || call.spec.op == "conv2d"; }

  // Gives `call` the result of `reader`, if a fast kernel runs the changed call.
  bool absorb(std::size_t i, LocalCall& reader, LocalCall changed) {
    changed.out = reader.out;
    changed.spec.out = reader.spec.out;
    auto choice = c_.catalog->find(changed.spec);
    if (!choice || choice->kernel != calls_[i].kernel || overwritten_between(i, reader)) return false;
    changed.workspace = choice->workspace;
    // The later place: operands of the reader exist there, and whoever reads the result comes after it.
    changed.kernel = choice->kernel;
    reader = std::move(changed);
    calls_[i].kernel.clear();
    count_uses();
    return true;
  }

  // An update in place of what the call reads may stand between it and its reader: then it must stay before it.
  bool overwritten_between(std::size_t i, const LocalCall& reader) const {
    for (std::size_t k = i + 1; &calls_[k] != &reader; ++k)
      for (int out : calls_[k].out)
        for (int in : calls_[i].in)
          if (!calls_[k].kernel.empty() && root(out) == root(in)) return true;
    return false;
  }

  // add(matmul(a, w), bias seen along the last or channel dimension)
  void add_bias(std::size_t i) {
    if (!takes(calls_[i]) || calls_[i].kernel.empty() || calls_[i].spec.attrs.flag("bias", false)) return;
    LocalCall* reader = only_reader(calls_[i]);
    if (reader == nullptr || op_of(*reader) != "add") return;
    int product = calls_[i].out[0];
    int which = reader->in[0] == product ? 1 : reader->in[1] == product ? 0 : -1;
    if (which < 0) return;
    int bias = reader->in[static_cast<std::size_t>(which)];
    if (bias == product) return;
    const View& seen = view(bias);
    std::size_t along = calls_[i].spec.op == "matmul" ? seen.shape.size() - 1 : 1;
    for (std::size_t d = 0; d < seen.shape.size(); ++d)
      if (seen.shape[d] != 1 && seen.strides[d] != (d == along ? 1 : 0)) return;
    LocalCall changed = calls_[i];
    changed.in.push_back(bias);
    changed.spec.in.push_back(View(seen.dtype, {seen.shape[along]}));
    changed.spec.attrs.set("bias", true);
    absorb(i, *reader, std::move(changed));
  }

  void add_relu(std::size_t i) {
    if (!takes(calls_[i]) || calls_[i].kernel.empty() || calls_[i].spec.attrs.flag("relu", false)) return;
    LocalCall* reader = only_reader(calls_[i]);
    if (reader == nullptr || op_of(*reader) != "relu" || reader->in[0] != calls_[i].out[0]) return;
    LocalCall changed = calls_[i];
    changed.spec.attrs.set("relu", true);
    absorb(i, *reader, std::move(changed));
  }

  // All updates with equal attributes, scalars and team become one call where the last one stood.
  void merge_updates(const std::string& op, std::size_t ins, std::size_t outs, std::size_t scalars) {
    std::map<std::string, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const LocalCall& call = calls_[i];
      if (call.spec.op != op || call.kernel.empty() || call.in.size() != ins + scalars) continue;
      std::string key = cat(call.kernel, call.spec.attrs.print(), call.spec.in[0].dtype);
      for (std::size_t s = 0; s < scalars; ++s) key += cat(" ", call.in[ins + s]);
      groups[key].push_back(i);
    }
    for (const auto& [key, members] : groups) {
      if (members.size() < 2 || !independent(members)) continue;
      LocalCall merged = calls_[members.back()];
      std::vector<int> tail(merged.in.end() - static_cast<long>(scalars), merged.in.end());
      std::vector<View> tail_views(merged.spec.in.end() - static_cast<long>(scalars), merged.spec.in.end());
      merged.in.clear(), merged.spec.in.clear(), merged.out.clear(), merged.spec.out.clear();
      for (std::size_t i : members) {
        const LocalCall& call = calls_[i];
        merged.in.insert(merged.in.end(), call.in.begin(), call.in.begin() + static_cast<long>(ins));
        merged.spec.in.insert(merged.spec.in.end(), call.spec.in.begin(), call.spec.in.begin() + static_cast<long>(ins));
        merged.out.insert(merged.out.end(), call.out.begin(), call.out.begin() + static_cast<long>(outs));
        merged.spec.out.insert(merged.spec.out.end(), call.spec.out.begin(), call.spec.out.begin() + static_cast<long>(outs));
        merged.spec.team = std::max(merged.spec.team, call.spec.team);
      }
      merged.in.insert(merged.in.end(), tail.begin(), tail.end());
      merged.spec.in.insert(merged.spec.in.end(), tail_views.begin(), tail_views.end());
      std::int64_t elements = 0;
      for (std::size_t k = 0; k < members.size(); ++k) elements += merged.spec.out[k * outs].count();
      constexpr std::int64_t worth = 1 << 14;  // elements from which a second thread pays
      merged.spec.team = elements >= worth ? c_.options.team : 1;
      auto choice = c_.catalog->find(merged.spec);
      if (!choice || choice->kernel != merged.kernel) continue;
      merged.workspace = choice->workspace;
      for (std::size_t i : members) calls_[i].kernel.clear();
      calls_[members.back()] = std::move(merged);
      count_uses();
    }
  }

  // Moving all members to the last one's place is right if no call between reads or writes what a member writes.
  bool independent(const std::vector<std::size_t>& members) const {
    std::set<std::size_t> inside(members.begin(), members.end());
    std::set<int> written;
    for (std::size_t i = members.front(); i <= members.back(); ++i) {
      if (inside.count(i)) {
        for (int in : calls_[i].in)
          if (written.count(root(in))) return false;
        for (int out : calls_[i].out) written.insert(root(out));
        continue;
      }
      for (int in : calls_[i].in)
        if (written.count(root(in))) return false;
      for (int out : calls_[i].out)
        if (written.count(root(out))) return false;
    }
    // Nor may a call between write what an earlier member reads.
    std::set<int> read;
    for (std::size_t i = members.front(); i <= members.back(); ++i) {
      if (inside.count(i)) {
        for (int in : calls_[i].in) read.insert(root(in));
      } else {
        for (int out : calls_[i].out)
          if (read.count(root(out))) return false;
      }
    }
    return true;
  }

  Compilation& c_;
  std::vector<LocalCall>& calls_;
  const std::vector<bool>& crosses_;
  std::map<int, std::vector<std::size_t>> users_;
};

}  // namespace

void fuse(Compilation& c) {
  auto crosses = crosses_actors(c);
  for (LocalSegment& segment : c.local) Fuser(c, segment, crosses).run();
}

}  // namespace karez::passes
