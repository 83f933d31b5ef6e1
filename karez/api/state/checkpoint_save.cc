// World::save: selects and names the tensors of a checkpoint; the component `data` writes the file.

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "karez/api/namespace.h"
#include "karez/api/ranks/gather.h"
#include "karez/api/ranks/rank_agreement.h"
#include "karez/api/state/checkpoint_notes.h"
#include "karez/api/state/stored_parts.h"
#include "karez/api/world.h"
#include "karez/base/hash.h"
#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/base/xxhash.h"
#include "karez/data/weight_writer.h"
#include "karez/runtime/launch/failure.h"

namespace karez {
namespace {

// A tensor of a checkpoint: either a variable, which is read when its lock is granted, or a loaded value that no
// variable has taken yet.
struct SavedTensor {
  std::string name;
  int ordinal = 0;
  std::string origin;
  WeightEntry entry;
  std::unique_ptr<StoredParts> stored = {};
  VariableKey key = {};  // of a variable
  std::optional<PendingWeight> pending = {};
};

// Returns all existing tensors, with the values that they have between two launches. Tensors with large elements come
// first, so that all tensors are aligned. With several ranks, variables are not locked here but read one after another,
// because a lock on one variable would delay the launch that gathers another. Tensors with the same name are numbered
// in the order of their creation, and the origin of each is added to `notes`.
std::vector<SavedTensor> collect_tensors(WorldState& world, WeightNotes& notes) {
  std::vector<SavedTensor> out;
  for (const auto& [key, variable] : world.variables.by_key) {
    const auto [name, ordinal] = VariableTable::display_name(key, variable);
    out.push_back({name,
                   ordinal,
                   Parameter::of(variable.owner) == Parameter() ? "" : Parameter::of(variable.owner).origin(),
                   {{}, std::string(weight_dtype(variable.type.dtype)), variable.type.shape},
                   world.ranks.alone() ? std::make_unique<StoredParts>(parts_of(world, key, variable, false)) : nullptr,
                   key});
  }
  world.variables.pending_weights.drop_expired();
  for (const PendingWeight& weight : world.variables.pending_weights.list)
    out.push_back({weight.offer.name,
                   weight.offer.ordinal.value_or(0),
                   weight.offer.origin,
                   {{}, weight.offer.entry.dtype, data::shape_of(weight.offer.entry, weight.offer.part)},
                   {},
                   {},
                   weight});
  std::stable_sort(out.begin(), out.end(),
                   [](const SavedTensor& a, const SavedTensor& b) { return created_before(a.origin, b.origin); });
  std::map<std::string_view, int> name_counts;
  for (const SavedTensor& tensor : out) ++name_counts[tensor.name];
  std::set<std::string> entry_names;
  for (SavedTensor& tensor : out) {
    const bool is_unique = name_counts[tensor.name] == 1;
    if (!is_unique && !tensor.origin.empty()) tensor.ordinal = 0;
    tensor.entry.name = is_unique ? tensor.name : session_name(tensor.name, tensor.ordinal);
    while (!entry_names.insert(tensor.entry.name).second)
      tensor.entry.name = session_name(tensor.name, ++tensor.ordinal);
    if (!is_unique && !tensor.origin.empty()) notes[origin_note(tensor.entry.name)] = tensor.origin;
  }
  std::stable_sort(out.begin(), out.end(), [](const SavedTensor& a, const SavedTensor& b) {
    return std::pair(-item_bytes(a.entry.dtype), std::string_view(a.entry.name)) <
           std::pair(-item_bytes(b.entry.dtype), std::string_view(b.entry.name));
  });
  return out;
}

// Reads the value of a tensor. If some rank does not hold the complete value, a launch of all ranks gathers it.
HostArray value_of(WorldState& world, SavedTensor& tensor, SourceLine where) {
  if (tensor.stored == nullptr) {
    world.session.wait_for_capacity();
    std::optional<runtime::Result> gathered;
    {
      WorldLock lock(world);
      const StoredVariable& variable = world.variables.by_key.at(tensor.key);
      if (whole_on_every_rank(world, variable.type, variable.mesh, variable.layout))
        tensor.stored = std::make_unique<StoredParts>(parts_of(world, tensor.key, variable, false));
      else gathered = start_gather(world, tensor.key, variable, where);
    }
    if (gathered) return gathered->read();
  }
  const HostArray value = read_parts(*tensor.stored);
  tensor.stored.reset();  // releases the variable's lock, so that launches which use only this variable may continue
  return value;
}

// The file that rank 0 writes. If writing fails, the other ranks still send their parts, and all ranks throw the error
// at the end, so that the world remains usable.
class CheckpointFile {
 public:
  explicit CheckpointFile(WorldState& world) : world_(world) {}

  template <class Step> void write(Step step) {
    if (world_.ranks.rank() != 0 || failure_) return;
    try {
      step(writer_);
    } catch (...) {
      failure_ = runtime::current_error();
      writer_.reset();
      if (world_.ranks.alone()) throw Error(*failure_);
    }
  }

  // `barrier` waits for all ranks. When it returns, rank 0 has written the file or has published why it could not.
  template <class Barrier> void finish(Barrier barrier) {
    // Two keys alternate, because some rank may not have read the outcome of the previous save yet.
    const std::string key = cat("save ", world_.saves++ % 2);
    if (world_.ranks.rank() == 0) world_.ranks.publish_outcome(key, failure_);
    barrier();
    if (!failure_ && world_.ranks.rank() != 0) failure_ = world_.ranks.read_outcome(key);
    if (failure_) throw Error(*failure_);
  }

 private:
  WorldState& world_;
  std::optional<WeightWriter> writer_;
  std::optional<Error> failure_;
};

}  // namespace

void World::save(const std::string& path, const CheckpointNotes& notes, SourceLine where) const {
  WeightNotes texts = notes_of(notes);
  state_->session.wait_all_launches();
  std::vector<SavedTensor> tensors = [&] {
    WorldLock lock(*state_);
    require(!state_->session.failed(),
            "save: the world's state is from a failed launch; load a checkpoint, or reset the world");
    return collect_tensors(*state_, texts);
  }();
  std::vector<WeightEntry> entries;
  for (const SavedTensor& tensor : tensors) entries.push_back(tensor.entry);
  agree_on_op(*state_, {.what = "a save",
                        .where = where,
                        .advice = "all ranks must save, and rank 0 writes the file: call save on every rank",
                        .is_barrier = true});
  CheckpointFile file(*state_);
  file.write([&](auto& writer) { writer.emplace(path, std::move(entries), texts); });
  for (SavedTensor& tensor : tensors) {
    if (const auto& weight = tensor.pending) {
      file.write([&](auto& writer) {
        writer->write(bytes_of(weight->offer.entry, weight->offer.part, weight->file->read(weight->offer.entry)));
      });
      continue;
    }
    const HostArray value = value_of(*state_, tensor, where);
    file.write([&](auto& writer) { writer->write({value.bytes(), static_cast<std::size_t>(value.type().bytes())}); });
  }
  require(!state_->session.failed(),
          "save: a call failed during the save, so the values may be from an incomplete step; load a checkpoint, or "
          "reset the world");
  file.write([&](auto& writer) { writer->commit(); });
  file.finish([this] { barrier(); });
}

}  // namespace karez
