// Checkpoints: selects and names the variables that are written and read; the data component handles the bytes.
#include "karez/api/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "karez/api/namespace.h"
#include "karez/api/ranks/gather.h"
#include "karez/api/ranks/rank_agreement.h"
#include "karez/api/state/stored_parts.h"
#include "karez/api/world.h"
#include "karez/base/hash.h"
#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/base/xxhash.h"
#include "karez/data/weight_writer.h"
#include "karez/runtime/failure.h"

namespace karez {
namespace {

constexpr std::string_view position_note = "karez.position", ours = "karez.";

WeightNotes notes_of(const CheckpointNotes& given) {
  require(given.position >= 0, "save: the position of the data is ", given.position, "; positions begin with 0");
  WeightNotes out = given.notes;
  for (const auto& [name, text] : out)
    require(!name.starts_with(ours) && name != "format", "save: a note is named '", name,
            "'; 'format' and names that begin with 'karez.' are reserved");
  out["format"] = "karez";
  out[std::string(position_note)] = std::to_string(given.position);
  return out;
}

CheckpointNotes notes_from(const WeightNotes& notes, const std::string& path) {
  CheckpointNotes out;
  for (const auto& [name, text] : notes) {
    if (name == position_note) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.position);
      require(ErrorKind::data, error == std::errc() && end == text.data() + text.size() && out.position >= 0, path,
              ": its position of the data is ", quote(text.substr(0, 100)), ", not a number from 0 on");
    } else if (name != "format" && !name.starts_with(ours)) {
      out.notes[name] = text;
    }
  }
  return out;
}

// A tensor of a checkpoint: a variable, read when its lock is granted, or a value that waits for a variable.
struct SavedTensor {
  std::string name;
  int ordinal = 0;
  std::string origin;
  WeightEntry entry;
  std::unique_ptr<StoredParts> stored = {};
  WorldState::Key key = {};  // of a variable
  std::optional<PendingWeight> waits = {};
};

// All existing tensors, at one moment between launches; those with large elements first, so that all are aligned. With
// several ranks variables are read one after the other: a lock on one would delay the launch that gathers another.
// Several of one name are numbered in the order in which they were made, and notes record the origin of each.
std::vector<SavedTensor> saved_tensors(WorldState& world, WeightNotes& notes) {
  std::vector<SavedTensor> out;
  for (const auto& [key, variable] : world.variables) {
    const auto [name, ordinal] = WorldState::display_name(key, variable);
    out.push_back({name,
                   ordinal,
                   Parameter::of(variable.owner) == Parameter() ? "" : Parameter::of(variable.owner).origin(),
                   {{}, std::string(weight_dtype(variable.type.dtype)), variable.type.shape},
                   world.ranks.alone() ? std::make_unique<StoredParts>(parts_of(world, key, variable, false)) : nullptr,
                   key});
  }
  world.pending_weights.drop_expired();
  for (const PendingWeight& one : world.pending_weights.list)
    out.push_back({one.offer.name,
                   one.offer.ordinal.value_or(0),
                   one.offer.origin,
                   {{}, one.offer.entry.dtype, data::shape_of(one.offer.entry, one.offer.part)},
                   {},
                   {},
                   one});
  std::stable_sort(out.begin(), out.end(),
                   [](const SavedTensor& a, const SavedTensor& b) { return created_before(a.origin, b.origin); });
  std::map<std::string_view, int> of_name;
  for (const SavedTensor& one : out) ++of_name[one.name];
  std::set<std::string> used;
  for (SavedTensor& one : out) {
    const bool alone = of_name[one.name] == 1;
    if (!alone && !one.origin.empty()) one.ordinal = 0;
    one.entry.name = alone ? one.name : key_of(one.name, one.ordinal);
    while (!used.insert(one.entry.name).second) one.entry.name = key_of(one.name, ++one.ordinal);
    if (!alone && !one.origin.empty()) notes[origin_note(one.entry.name)] = one.origin;
  }
  std::stable_sort(out.begin(), out.end(), [](const SavedTensor& a, const SavedTensor& b) {
    return std::pair(-item_bytes(a.entry.dtype), std::string_view(a.entry.name)) <
           std::pair(-item_bytes(b.entry.dtype), std::string_view(b.entry.name));
  });
  return out;
}

// The target of a value: a variable, or a parameter without a variable yet.
struct LoadTarget {
  WantedWeight wanted;
  TensorType type;
  std::optional<WorldState::Key> key;
  Parameter::Identity owner;
  int offer = -1;
};

std::vector<LoadTarget> load_targets(const WorldState& world, const std::vector<Parameter>& parameters) {
  std::vector<LoadTarget> out;
  if (parameters.empty()) {
    for (const auto& [key, variable] : world.variables) {
      const auto [name, ordinal] = WorldState::display_name(key, variable);
      const Parameter owner = Parameter::of(variable.owner);
      out.push_back({{name, ordinal, owner == Parameter() ? "" : owner.origin()}, variable.type, key, variable.owner});
    }
    return out;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    require(parameter != Parameter(), "load: parameter number ", i, " is uninitialised");
    if (std::find(parameters.begin(), parameters.begin() + static_cast<std::ptrdiff_t>(i), parameter) !=
        parameters.begin() + static_cast<std::ptrdiff_t>(i))
      continue;
    const auto stored = world.find(parameter);
    LoadTarget target{
        {parameter.name(), parameter.ordinal(), parameter.origin()}, parameter.type(), {}, parameter.identity()};
    if (stored != world.variables.end()) target.key = stored->first;
    out.push_back(std::move(target));
  }
  return out;
}

std::string list(const std::vector<std::string>& names) {
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(names.size(), 8)));
  return cat(join(first, ", "), names.size() > first.size() ? cat(" and ", names.size() - first.size(), " more") : "");
}

// The path of its module: "block.bn." for "block.bn.weight".
std::string_view module_of(std::string_view name) { return name.substr(0, name.find_last_of('.') + 1); }

// Checks the tensors that the file contains in addition to the loaded parameters.
void check_extra(const WeightFiles& file, const std::vector<std::string>& extra, const std::vector<LoadTarget>& targets,
                 const LoadOptions& options) {
  std::set<std::string_view> modules;
  for (const LoadTarget& target : targets) modules.insert(module_of(target.wanted.name));
  std::string_view below = *modules.begin();  // common path of all of them
  for (std::string_view module : modules)
    while (!module.starts_with(below)) below = module_of(below.substr(0, below.size() - 1));
  std::set<std::string> known;  // buffers of the models of these parameters, and those that the caller lists
  for (const Parameter& one : options.known) known.insert(one.name());
  std::vector<Parameter> first;  // one of each model
  for (const Parameter& one : options.parameters) {
    const std::vector<Parameter> buffers = one.buffers_of_model();
    if (buffers.empty() || std::find(first.begin(), first.end(), buffers[0]) != first.end()) continue;
    first.push_back(buffers[0]);
    for (const Parameter& buffer : buffers) known.insert(buffer.name());
  }
  std::vector<std::string> buffers, beside;
  for (const std::string& name : extra) {
    if (known.count(name) > 0 && name.starts_with(below)) buffers.push_back(name);
    else if (modules.count(module_of(name)) > 0) beside.push_back(name);
  }
  if (buffers.empty() && (options.extra || extra.empty())) return;
  const char* with_them =
      "load(path, {.parameters = net.state(), .extra = true}) takes a module's running statistics with its parameters "
      "and leaves out the rest";
  if (!buffers.empty())
    fail(ErrorKind::name, file.path(), ": it contains ", list(buffers),
         ", state of the modules whose parameters are loaded; without it they are another ", "model. ", with_them);
  fail(ErrorKind::name, file.path(), ": no parameter is named ", list(extra),
       ". A WeightRule maps names, one with an empty name leaves tensors out, ",
       beside.empty() ? "{.extra = true} leaves out all of them" : with_them);
}

// When everything is loaded, checks parameters without a variable yet: tensors of the file with their names must have
// their shapes, and the file must not lack a parameter while it has an unknown name for a tensor of the same shape.
void check_known(const WeightFiles& file, const std::vector<OfferedWeight>& offers, const std::vector<bool>& taken,
                 const LoadOptions& options) {
  std::map<std::string_view, std::vector<const Parameter*>> known;
  for (const Parameter& one : options.known) known[one.name()].push_back(&one);
  std::set<std::string_view> names;
  std::vector<const OfferedWeight*> left;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const OfferedWeight& offer = offers[i];
    names.insert(offer.name);
    const auto found = known.find(offer.name);
    if (taken[i]) continue;
    if (found == known.end()) {
      left.push_back(&offer);
      continue;
    }
    // Several have one name if a model was made again: one match suffices.
    const bool fits = std::any_of(found->second.begin(), found->second.end(), [&](const Parameter* one) {
      return one->shape() == data::shape_of(offer.entry, offer.part) && is_representable(offer.entry, one->dtype());
    });
    if (!fits) require_fits(file, offer, offer.name, found->second.back()->type());
  }
  if (options.missing) return;
  // The name of an optimiser's state contains the parameter's name; a future optimiser takes it.
  std::erase_if(left, [&](const OfferedWeight* one) {
    for (std::size_t dot = one->name.find('.'); dot != one->name.npos; dot = one->name.find('.', dot + 1))
      if (names.count(std::string_view(one->name).substr(dot + 1)) > 0) return true;
    return false;
  });
  for (const auto& [name, all] : known) {
    if (names.count(name) > 0) continue;
    for (const OfferedWeight* one : left)
      if (data::shape_of(one->entry, one->part) == all[0]->shape())
        fail(ErrorKind::name, file.path(), ": it has no tensor for ", name, ", and there is no parameter for ",
             one->name,
             ", of the same shape. A WeightRule maps names; with {.missing = true} missing parameters begin with their "
             "initial values");
  }
}

// All checks that must pass before anything is changed.
void check_all(const WeightFiles& file, const std::vector<OfferedWeight>& offers,
               const std::vector<LoadTarget>& targets, const LoadOptions& options) {
  std::vector<std::string> missing, extra;
  std::vector<bool> taken(offers.size(), false);
  for (const LoadTarget& target : targets) {
    if (target.offer < 0) missing.push_back(target.wanted.name);
    else taken[static_cast<std::size_t>(target.offer)] = true;
  }
  for (std::size_t i = 0; i < offers.size(); ++i)
    if (!taken[i]) extra.push_back(offers[i].name);
  if (!options.missing && !missing.empty())
    fail(ErrorKind::name, file.path(), ": it has no tensor for ", list(missing), "; for ", missing[0], " ",
         suggest_names(missing[0], extra),
         " that no parameter takes. A WeightRule maps names; with {.missing = true} missing parameters stay unchanged");
  if (!options.parameters.empty()) check_extra(file, extra, targets, options);
  else check_known(file, offers, taken, options);
  for (const LoadTarget& target : targets)
    if (target.offer >= 0)
      require_fits(file, offers[static_cast<std::size_t>(target.offer)], target.wanted.name, target.type);
}

// A value to write when its lock is granted.
struct VariableWrite {
  std::string name;
  StoredParts stored;
  OfferedWeight offer;
};

// Requires the world's lock: sets the pending values, and locks existing variables, all at one moment.
std::vector<VariableWrite> start_load(WorldState& world, const std::shared_ptr<const WeightFiles>& file,
                                      const std::vector<OfferedWeight>& offers, const std::vector<LoadTarget>& targets,
                                      const LoadOptions& options) {
  const bool all = options.parameters.empty(), failed = world.session.failed();
  require(all || !failed,
          "the world's state is from a failed launch: load a complete checkpoint, not only some parameters");
  if (failed) world.restart(true);
  if (all) world.pending_weights = {};
  for (const Parameter& parameter : options.parameters) world.pending_weights.remove(parameter);
  std::vector<VariableWrite> out;
  std::vector<bool> taken(offers.size(), false);
  for (const LoadTarget& target : targets) {
    if (target.offer < 0) continue;
    const OfferedWeight& offer = offers[static_cast<std::size_t>(target.offer)];
    taken[static_cast<std::size_t>(target.offer)] = true;
    const auto stored = target.key ? world.variables.find(*target.key) : world.variables.end();
    if (stored == world.variables.end()) {
      world.pending_weights.list.push_back({file, offer, target.owner});
      world.pending_weights.list.back().offer.ordinal = target.wanted.ordinal;  // under which it would be saved
      world.pending_weights.list.back().offer.origin = target.wanted.origin;
    } else {
      out.push_back({target.wanted.name, parts_of(world, stored->first, stored->second, true), offer});
    }
  }
  if (!all) return out;
  for (std::size_t i = 0; i < offers.size(); ++i)
    if (!taken[i]) world.pending_weights.list.push_back({file, offers[i], {}});
  if (!options.missing) world.pending_weights.whole_checkpoint = file->path();
  return out;
}

// A hash of the rules, names and contents of a load: equal on all ranks.
std::uint64_t hash_of(const WeightFiles& file, const std::vector<OfferedWeight>& offers,
                      const std::vector<LoadTarget>& targets, const LoadOptions& options) {
  base::Hash hash;
  // Checksums by entry; rules may take several parts of an entry without a stored checksum.
  std::map<std::string_view, std::uint64_t> sums;
  for (const OfferedWeight& offer : offers) {
    const WeightEntry& entry = offer.entry;
    hash.add(offer.name)
        .add(static_cast<std::uint64_t>(offer.ordinal.value_or(-1)))
        .add(entry.name)
        .add(cat(entry.dtype, entry.shape));
    hash.add(cat(offer.part.transposed, " ", offer.part.part, " ", offer.part.parts, " ", offer.part.axis));
    const auto [sum, fresh] = sums.emplace(entry.name, 0);
    if (fresh) sum->second = entry.checksum ? *entry.checksum : hash_bytes(file.read(entry));
    hash.add(sum->second);
  }
  for (const auto& [name, text] : file.notes()) hash.add(name).add(text);
  if (!options.parameters.empty())
    for (const LoadTarget& target : targets) hash.add(target.wanted.name).add(target.wanted.origin);
  return hash.add(cat(options.missing, " ", options.extra)).value();
}

// Reads the value, by a launch of all ranks if some rank does not hold all of it.
HostArray value_of(WorldState& world, SavedTensor& one, SourceLine where) {
  if (one.stored == nullptr) {
    world.session.wait_for_capacity();
    std::optional<runtime::Result> brought;
    {
      WorldLock lock(world);
      const StoredVariable& variable = world.variables.at(one.key);
      if (whole_on_every_rank(world, variable.type, variable.mesh, variable.layout))
        one.stored = std::make_unique<StoredParts>(parts_of(world, one.key, variable, false));
      else brought = start_gather(world, one.key, variable, where);
    }
    if (brought) return brought->read();
  }
  const HostArray value = read_parts(*one.stored);
  one.stored.reset();  // releases its lock, so that launches which need only this variable may continue
  return value;
}

// The file that rank 0 writes. If writing fails, the other ranks still send their parts, and all ranks get the error at
// the end: the world remains usable.
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

  // `barrier` waits for all ranks; after it the file exists for each of them.
  template <class Barrier> void finish(Barrier barrier) {
    // Alternates, since some rank may not have read the outcome of the previous save yet.
    const std::string word = cat("save ", world_.saves++ % 2);
    if (world_.ranks.rank() == 0) world_.ranks.publish_outcome(word, failure_);
    barrier();
    if (!failure_ && world_.ranks.rank() != 0) failure_ = world_.ranks.read_outcome(word);
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
  std::vector<SavedTensor> all = [&] {
    WorldLock lock(*state_);
    require(!state_->session.failed(),
            "save: the world's state is from a failed launch; load a checkpoint, or reset the world");
    return saved_tensors(*state_, texts);
  }();
  std::vector<WeightEntry> entries;
  for (const SavedTensor& one : all) entries.push_back(one.entry);
  agree_on_op(*state_, {.what = "a save",
                        .where = where,
                        .advice = "all ranks must save, and rank 0 writes the file: call it on every rank",
                        .is_barrier = true});
  CheckpointFile file(*state_);
  file.write([&](auto& writer) { writer.emplace(path, std::move(entries), texts); });
  for (SavedTensor& one : all) {
    if (one.waits) {
      file.write([&](auto& writer) {
        writer->write(
            bytes_of(one.waits->offer.entry, one.waits->offer.part, one.waits->file->read(one.waits->offer.entry)));
      });
      continue;
    }
    const HostArray value = value_of(*state_, one, where);
    file.write([&](auto& writer) { writer->write({value.bytes(), static_cast<std::size_t>(value.type().bytes())}); });
  }
  require(!state_->session.failed(),
          "save: a call failed during the save, so the values may be from an incomplete step; load a checkpoint, or "
          "reset the world");
  file.write([&](auto& writer) { writer->commit(); });
  file.finish([this] { barrier(); });
}

CheckpointNotes World::load(const std::string& path, const LoadOptions& options, SourceLine where) {
  const auto file = std::make_shared<const WeightFiles>(path);
  CheckpointNotes notes = notes_from(file->notes(), path);
  const std::vector<OfferedWeight> offers = offered_weights(*file, options.rules);
  state_->session.wait_all_launches();
  const auto matched_targets = [&] {
    std::vector<LoadTarget> who = load_targets(*state_, options.parameters);
    std::vector<WantedWeight> wanted;
    for (const LoadTarget& target : who) wanted.push_back(target.wanted);
    const std::vector<int> found = match_weights(offers, wanted, path, !options.parameters.empty());
    for (std::size_t i = 0; i < who.size(); ++i) who[i].offer = found[i];
    check_all(*file, offers, who, options);
    return who;
  };
  const std::vector<LoadTarget> who = [&] {
    WorldLock lock(*state_);
    return matched_targets();
  }();
  file->check_bytes();
  const bool failed = state_->session.failed();  // then all ranks reset first
  const auto agree = [&] {
    if (state_->ranks.alone()) return;
    agree_on_op(*state_, {.hash = hash_of(*file, offers, who, options),
                          .what = "a load",
                          .where = where,
                          .advice = "all ranks must load files of equal contents: call it on every rank",
                          .is_barrier = true});
  };
  if (!failed) agree();
  std::vector<VariableWrite> writes = [&] {
    WorldLock lock(*state_);
    return start_load(*state_, file, offers, matched_targets(), options);
  }();
  if (failed) try {
      agree();
    } catch (...) {
      WorldLock lock(*state_);
      state_->pending_weights = {};  // from this rank's file
      throw;
    }
  for (const VariableWrite& write : writes) {
    try {
      write_parts(write.stored, value_of(*file, write.offer, write.stored.type));
    } catch (const Error& error) {
      const Error broke(error.kind,
                        cat("load failed at variable '", write.name,
                            "', so that only some variables have the file's values; load again: ", error.what()));
      if (!state_->ranks.alone()) state_->session.fail_ranks(broke);
      throw broke;
    }
  }
  return notes;
}

std::vector<std::string> World::waiting() const {
  WorldLock lock(*state_);
  state_->pending_weights.drop_expired();
  std::vector<std::string> out;
  for (const PendingWeight& one : state_->pending_weights.list) out.push_back(one.offer.name);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace karez
