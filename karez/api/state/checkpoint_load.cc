// World::load: matches the tensors of a file with variables and writes their values. Values without a variable are kept
// for future variables.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "karez/api/namespace.h"
#include "karez/api/ranks/rank_agreement.h"
#include "karez/api/state/checkpoint_notes.h"
#include "karez/api/state/stored_parts.h"
#include "karez/api/trace/builtin_names.h"
#include "karez/api/world.h"
#include "karez/base/hash.h"
#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/base/xxhash.h"
#include "karez/runtime/launch/failure.h"

namespace karez {
namespace {

// The target of a value: a variable, or a parameter without a variable yet.
struct LoadTarget {
  WantedWeight wanted;
  TensorType type;
  std::optional<VariableKey> key;
  Parameter::Identity owner;
  int offer = -1;
};

std::vector<LoadTarget> load_targets(const WorldState& world, const std::vector<Parameter>& parameters) {
  std::vector<LoadTarget> out;
  if (parameters.empty()) {
    for (const auto& [key, variable] : world.variables.by_key) {
      const auto [name, ordinal] = VariableTable::display_name(key, variable);
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
    const auto stored = world.variables.find(parameter);
    LoadTarget target{
        {parameter.name(), parameter.ordinal(), parameter.origin()}, parameter.type(), {}, parameter.identity()};
    if (stored != world.variables.by_key.end()) target.key = stored->first;
    out.push_back(std::move(target));
  }
  return out;
}

std::string list(const std::vector<std::string>& names) {
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(names.size(), 8)));
  return cat(join(first, ", "), names.size() > first.size() ? cat(" and ", names.size() - first.size(), " more") : "");
}

// Returns the path of a parameter's module: "block.bn." for "block.bn.weight".
std::string_view module_of(std::string_view name) { return name.substr(0, name.find_last_of('.') + 1); }

// Throws if the file contains tensors in addition to the loaded parameters that the options do not allow.
void check_extra(const WeightFiles& file, const std::vector<std::string>& extra, const std::vector<LoadTarget>& targets,
                 const LoadOptions& options) {
  std::set<std::string_view> modules;
  for (const LoadTarget& target : targets) modules.insert(module_of(target.wanted.name));
  std::string_view common_path = *modules.begin();
  for (std::string_view module : modules)
    while (!module.starts_with(common_path)) common_path = module_of(common_path.substr(0, common_path.size() - 1));
  std::set<std::string> known_names;  // buffers of the models of these parameters, and parameters that the caller lists
  for (const Parameter& parameter : options.known) known_names.insert(parameter.name());
  std::vector<Parameter> first_buffers;  // the first buffer of each model
  for (const Parameter& parameter : options.parameters) {
    const std::vector<Parameter> buffers = parameter.buffers_of_model();
    if (buffers.empty() || std::find(first_buffers.begin(), first_buffers.end(), buffers[0]) != first_buffers.end())
      continue;
    first_buffers.push_back(buffers[0]);
    for (const Parameter& buffer : buffers) known_names.insert(buffer.name());
  }
  std::vector<std::string> buffers, module_tensors;  // extra tensors of the modules whose parameters are loaded
  for (const std::string& name : extra) {
    if (known_names.count(name) > 0 && name.starts_with(common_path)) buffers.push_back(name);
    else if (modules.count(module_of(name)) > 0) module_tensors.push_back(name);
  }
  if (buffers.empty() && (options.extra || extra.empty())) return;
  const char* advice =
      "load(path, {.parameters = net.state(), .extra = true}) loads a module's running statistics with its parameters "
      "and skips all other tensors";
  if (!buffers.empty())
    fail(ErrorKind::name, file.path(), ": ", list(buffers),
         " would not be loaded, but the modules whose parameters are loaded need this state. ", advice);
  fail(ErrorKind::name, file.path(), ": no parameter is named ", list(extra),
       ". A WeightRule maps names and skips tensors if its name is empty; ",
       module_tensors.empty() ? "{.extra = true} skips all of them" : advice);
}

// When everything is loaded, checks the known parameters that have no variable yet. A tensor with the name of such a
// parameter must have the parameter's shape. If the file lacks a parameter, it must not contain a tensor of the same
// shape with an unknown name.
void check_known(const WeightFiles& file, const std::vector<OfferedWeight>& offers, const std::vector<bool>& taken,
                 const LoadOptions& options) {
  std::map<std::string_view, std::vector<const Parameter*>> known;
  for (const Parameter& parameter : options.known) known[parameter.name()].push_back(&parameter);
  std::set<std::string_view> names;
  std::vector<const OfferedWeight*> unknown;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const OfferedWeight& offer = offers[i];
    names.insert(offer.name);
    const auto parameters = known.find(offer.name);
    if (taken[i]) continue;
    if (parameters == known.end()) {
      if (!is_builtin_name(offer.name)) unknown.push_back(&offer);
      continue;
    }
    // Several parameters have the same name if a model was made again; one match suffices.
    const bool any_fits =
        std::any_of(parameters->second.begin(), parameters->second.end(), [&](const Parameter* parameter) {
          return parameter->shape() == data::shape_of(offer.entry, offer.part) &&
                 is_representable(offer.entry, parameter->dtype());
        });
    if (!any_fits) require_fits(file, offer, offer.name, parameters->second.back()->type());
  }
  if (options.missing) return;
  // Removes the state of optimisers, which has a name that contains the name of a parameter; an optimiser that is made
  // later takes this state.
  std::erase_if(unknown, [&](const OfferedWeight* offer) {
    for (std::size_t dot = offer->name.find('.'); dot != offer->name.npos; dot = offer->name.find('.', dot + 1))
      if (names.count(std::string_view(offer->name).substr(dot + 1)) > 0) return true;
    return false;
  });
  for (const auto& [name, parameters] : known) {
    if (names.count(name) > 0) continue;
    for (const OfferedWeight* offer : unknown)
      if (data::shape_of(offer->entry, offer->part) == parameters[0]->shape())
        fail(ErrorKind::name, file.path(), ": the file has no tensor for ", name, ", but has a tensor ", offer->name,
             " of the same shape, for which there is no parameter. A WeightRule maps names; with {.missing = true} "
             "missing parameters begin with their initial values");
  }
}

// Makes all checks that must pass before anything is changed.
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
    fail(ErrorKind::name, file.path(), ": the file has no tensor for ", list(missing),
         ". Among the tensors that no parameter takes, ", suggest_names(missing[0], extra),
         ". A WeightRule maps names; with {.missing = true} missing parameters stay unchanged");
  if (!options.parameters.empty()) check_extra(file, extra, targets, options);
  else check_known(file, offers, taken, options);
  for (const LoadTarget& target : targets)
    if (target.offer >= 0)
      require_fits(file, offers[static_cast<std::size_t>(target.offer)], target.wanted.name, target.type);
}

// A value to write when the lock of its variable is granted.
struct VariableWrite {
  std::string name;
  StoredParts stored;
  OfferedWeight offer;
};

// Sets the pending values and requests locks on existing variables, at one point in the order of launches. Requires the
// world's lock.
std::vector<VariableWrite> start_load(WorldState& world, const std::shared_ptr<const WeightFiles>& file,
                                      const std::vector<OfferedWeight>& offers, const std::vector<LoadTarget>& targets,
                                      const LoadOptions& options) {
  const bool all = options.parameters.empty(), failed = world.session.failed();
  require(all || !failed,
          "the world's state is from a failed launch: load a complete checkpoint, not only some parameters");
  if (failed) world.restart(true);
  if (all) world.variables.pending_weights = {};
  for (const Parameter& parameter : options.parameters) world.variables.pending_weights.remove(parameter);
  std::vector<VariableWrite> out;
  std::vector<bool> taken(offers.size(), false);
  for (const LoadTarget& target : targets) {
    if (target.offer < 0) continue;
    const OfferedWeight& offer = offers[static_cast<std::size_t>(target.offer)];
    taken[static_cast<std::size_t>(target.offer)] = true;
    const auto stored = target.key ? world.variables.by_key.find(*target.key) : world.variables.by_key.end();
    if (stored == world.variables.by_key.end()) {
      world.variables.pending_weights.list.push_back({file, offer, target.owner});
      // A later save uses the ordinal and the origin.
      world.variables.pending_weights.list.back().offer.ordinal = target.wanted.ordinal;
      world.variables.pending_weights.list.back().offer.origin = target.wanted.origin;
    } else {
      out.push_back({target.wanted.name, parts_of(world, stored->first, stored->second, true), offer});
    }
  }
  if (!all) return out;
  for (std::size_t i = 0; i < offers.size(); ++i)
    if (!taken[i]) world.variables.pending_weights.list.push_back({file, offers[i], {}});
  if (!options.missing) world.variables.pending_weights.complete_checkpoint = file->path();
  return out;
}

// Returns a hash of the rules, names and contents of a load, which must be equal on all ranks.
std::uint64_t hash_of(const WeightFiles& file, const std::vector<OfferedWeight>& offers,
                      const std::vector<LoadTarget>& targets, const LoadOptions& options) {
  base::Hash hash;
  // Rules may take several parts of an entry, so the checksum of an entry is computed only once if the file does not
  // store it.
  std::map<std::string_view, std::uint64_t> checksums;
  for (const OfferedWeight& offer : offers) {
    const WeightEntry& entry = offer.entry;
    hash.add(offer.name)
        .add(static_cast<std::uint64_t>(offer.ordinal.value_or(-1)))
        .add(entry.name)
        .add(cat(entry.dtype, entry.shape));
    hash.add(cat(offer.part.transposed, " ", offer.part.part, " ", offer.part.parts, " ", offer.part.axis));
    const auto [checksum, is_new] = checksums.emplace(entry.name, 0);
    if (is_new) checksum->second = entry.checksum ? *entry.checksum : hash_bytes(file.read(entry));
    hash.add(checksum->second);
  }
  for (const auto& [name, text] : file.notes()) hash.add(name).add(text);
  if (!options.parameters.empty())
    for (const LoadTarget& target : targets) hash.add(target.wanted.name).add(target.wanted.origin);
  return hash.add(cat(options.missing, " ", options.extra)).value();
}

}  // namespace

CheckpointNotes World::load(const std::string& path, const LoadOptions& options, SourceLine where) {
  const auto file = std::make_shared<const WeightFiles>(path);
  CheckpointNotes notes = notes_from(file->notes(), path);
  const std::vector<OfferedWeight> offers = offered_weights(*file, options.rules);
  if (!state_->session.failed()) state_->deferred_reads.run();
  state_->session.wait_all_launches();
  const auto matched_targets = [&] {
    std::vector<LoadTarget> matched = load_targets(*state_, options.parameters);
    std::vector<WantedWeight> wanted;
    for (const LoadTarget& target : matched) wanted.push_back(target.wanted);
    const std::vector<int> indices = match_weights(offers, wanted, path, !options.parameters.empty());
    for (std::size_t i = 0; i < matched.size(); ++i) matched[i].offer = indices[i];
    check_all(*file, offers, matched, options);
    return matched;
  };
  const std::vector<LoadTarget> targets = [&] {
    WorldLock lock(*state_);
    return matched_targets();
  }();
  file->check_bytes();
  const bool failed = state_->session.failed();  // if true, all ranks reset first
  const auto agree = [&] {
    if (state_->ranks.alone()) return;
    agree_on_op(*state_, {.hash = hash_of(*file, offers, targets, options),
                          .what = "a load",
                          .where = where,
                          .advice = "all ranks must load files with equal contents: call load on every rank",
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
      state_->variables.pending_weights = {};  // discards the values from this rank's file
      throw;
    }
  for (const VariableWrite& write : writes) {
    try {
      write_parts(write.stored, value_of(*file, write.offer, write.stored.type));
    } catch (const Error& error) {
      const Error load_error(error.kind,
                             cat("load failed at variable '", write.name,
                                 "', so only some variables have the file's values; load again: ", error.what()));
      if (!state_->ranks.alone()) state_->session.fail_ranks(load_error);
      throw load_error;
    }
  }
  return notes;
}

std::vector<std::string> World::waiting() const {
  WorldLock lock(*state_);
  state_->variables.pending_weights.drop_expired();
  std::vector<std::string> out;
  for (const PendingWeight& weight : state_->variables.pending_weights.list) out.push_back(weight.offer.name);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace karez
