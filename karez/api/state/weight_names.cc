// Applies weight rules to the tensors of a file, and matches their names with those of variables.
#include "karez/api/state/weight_names.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <map>
#include <set>

#include "karez/base/suggest_names.h"
#include "karez/base/text.h"

namespace karez {
namespace {

// Returns the characters that each '*' of the pattern matches in the name. Stars further left match as few characters
// as possible. Returns nullopt if the pattern does not match.
std::optional<std::vector<std::string>> match_stars(std::string_view pattern, std::string_view name) {
  const std::vector<std::string> pieces = split(pattern, '*');  // the characters between the stars
  if (!name.starts_with(pieces[0])) return {};
  // Dynamic programming bounds the time for any pattern: ends[i] maps each possible end of piece i to the end of the
  // previous piece.
  std::vector<std::map<std::size_t, std::size_t>> ends(pieces.size());
  ends[0][pieces[0].size()] = 0;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    for (const auto& [begin, previous_end] : ends[i - 1]) {
      const std::size_t dot = std::min(name.find('.', begin), name.size());
      for (std::size_t piece_begin = begin; piece_begin <= dot; ++piece_begin)
        if (name.substr(piece_begin).starts_with(pieces[i])) ends[i].emplace(piece_begin + pieces[i].size(), begin);
    }
  }
  std::size_t end = name.size();
  if (ends.back().count(end) == 0) return {};
  std::vector<std::string> stars(pieces.size() - 1);
  for (std::size_t i = pieces.size() - 1; i > 0; --i) {
    const std::size_t begin = ends[i].at(end);
    stars[i - 1] = name.substr(begin, end - pieces[i].size() - begin);
    end = begin;
  }
  return stars;
}

std::string fill_stars(std::string_view name, const std::vector<std::string>& stars) {
  std::string out;
  std::size_t next = 0;
  for (char c : name) {
    if (c == '*') out += stars[next++];
    else out += c;
  }
  return out;
}

std::string print(const WeightRule& rule) { return cat("{", quote(rule.file), ", ", quote(rule.name), "}"); }

void check_rule(const WeightRule& rule, const std::string& path) {
  const auto stars = [](const std::string& text) { return std::count(text.begin(), text.end(), '*'); };
  if (rule.file.empty()) fail(path, ": rule ", print(rule), " has an empty `file`");
  if (!rule.name.empty() && stars(rule.name) != stars(rule.file))
    fail(path, ": rule ", print(rule), " has ", stars(rule.file), " stars in `file`, but ", stars(rule.name),
         " in `name`");
  if (rule.parts < 1 || rule.part < 0 || rule.part >= rule.parts)
    fail(path, ": rule ", print(rule), ": part ", rule.part, " of ", rule.parts,
         " does not exist; parts are numbered from 0");
}

// Makes an offer; "w#2" has the name w and the ordinal 2.
OfferedWeight make_offer(std::string name, const WeightEntry& entry, const WeightPart& part) {
  OfferedWeight out{std::move(name), {}, {}, entry, part};
  const auto hash = out.name.find_last_of('#');
  if (hash == out.name.npos || hash + 1 == out.name.size() || out.name.size() - hash > 9) return out;
  if (out.name.find_first_not_of("0123456789", hash + 1) != out.name.npos) return out;
  out.ordinal = std::stoi(out.name.substr(hash + 1));
  out.name.resize(hash);
  return out;
}

// Checks that the rules use all parts of an entry, because a part without a rule would not be loaded.
void check_parts(const WeightEntry& entry, const std::vector<const WeightRule*>& rules, const std::string& path) {
  std::set<int> parts;
  for (const WeightRule* rule : rules) {
    if (rule->parts != rules[0]->parts || rule->axis != rules[0]->axis)
      fail(path, ": tensor ", quote(entry.name), " is divided differently by rules ", print(*rules[0]), " and ",
           print(*rule));
    if (!parts.insert(rule->part).second)
      fail(path, ": tensor ", quote(entry.name), ": two rules use part ", rule->part, " of ", rule->parts,
           "; the second one is ", print(*rule));
  }
  if (!rules.empty())
    if (static_cast<int>(parts.size()) != rules[0]->parts)
      fail(path, ": tensor ", quote(entry.name), " is divided into ", rules[0]->parts, " parts, but rules use only ",
           parts.size(), "; a rule with an empty name skips a part");
}

}  // namespace

std::vector<OfferedWeight> offered_weights(const WeightFiles& file, const std::vector<WeightRule>& rules) {
  const std::vector<WeightEntry>& entries = file.entries();
  const std::string& path = file.path();
  for (const WeightRule& rule : rules) check_rule(rule, path);
  std::vector<OfferedWeight> out;
  std::set<const WeightRule*> used_rules;
  for (const WeightEntry& entry : entries) {
    std::vector<const WeightRule*> matching;
    for (const WeightRule& rule : rules) {
      const auto stars = match_stars(rule.file, entry.name);
      if (!stars) continue;
      matching.push_back(&rule);
      if (!rule.name.empty())
        out.push_back(
            make_offer(fill_stars(rule.name, *stars), entry, {rule.transposed, rule.part, rule.parts, rule.axis}));
    }
    used_rules.insert(matching.begin(), matching.end());
    check_parts(entry, matching, path);
    if (matching.empty()) out.push_back(make_offer(entry.name, entry, {}));
  }
  for (const WeightRule& rule : rules)
    if (used_rules.count(&rule) == 0)
      fail(ErrorKind::name, path, ": rule ", print(rule), " matches no tensor of the file; ",
           suggest_names(rule.file, entries, [](const WeightEntry& entry) { return entry.name; }));
  for (OfferedWeight& offer : out)
    if (const auto note = file.notes().find(origin_note(offer.entry.name)); note != file.notes().end())
      offer.origin = note->second;
  std::map<std::pair<std::string, int>, std::string> entry_names;
  for (const OfferedWeight& offer : out) {
    auto [first, is_new] = entry_names.emplace(std::pair(offer.name, offer.ordinal.value_or(0)), offer.entry.name);
    if (!is_new)
      fail(ErrorKind::name, path, ": tensors ", quote(first->second), " and ", quote(offer.entry.name),
           " are both named '", offer.name, "' in this program");
  }
  return out;
}

std::string origin_note(const std::string& entry) { return "karez.origin." + entry; }

bool created_before(const std::string& origin, const std::string& other) {
  const auto number = [](const std::string& text) {
    const std::size_t hash = text.find_last_of('#');
    const std::string numbers = hash == text.npos ? "" : text.substr(hash + 1),
                      site = numbers.substr(0, numbers.find('.')),
                      copy = site.size() < numbers.size() ? numbers.substr(site.size() + 1) : "";
    return std::tuple(site.size(), site, copy.size(), copy);  // compares numbers, which have no leading zeros
  };
  return number(origin) < number(other);
}

std::vector<int> match_weights(const std::vector<OfferedWeight>& offers, const std::vector<WantedWeight>& wanted,
                               const std::string& path, bool is_partial) {
  std::map<std::string_view, std::vector<int>> offers_by_name, wanted_by_name;  // indices
  for (std::size_t i = 0; i < offers.size(); ++i) offers_by_name[offers[i].name].push_back(static_cast<int>(i));
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted_by_name[wanted[i].name].push_back(static_cast<int>(i));
  const auto offer = [&](int i) -> const OfferedWeight& { return offers[static_cast<std::size_t>(i)]; };
  const auto weight = [&](int i) -> const WantedWeight& { return wanted[static_cast<std::size_t>(i)]; };
  const auto ordinal = [&](int i) { return offer(i).ordinal.value_or(0); };
  std::vector<int> out(wanted.size(), -1);
  for (auto& [name, targets] : wanted_by_name) {
    auto& sources = offers_by_name[name];
    if (sources.empty()) continue;
    std::stable_sort(targets.begin(), targets.end(),
                     [&](int a, int b) { return weight(a).ordinal < weight(b).ordinal; });
    std::stable_sort(targets.begin(), targets.end(),
                     [&](int a, int b) { return created_before(weight(a).origin, weight(b).origin); });
    std::sort(sources.begin(), sources.end(), [&](int a, int b) { return ordinal(a) < ordinal(b); });
    if (targets.size() == sources.size()) {
      for (std::size_t i = 0; i < targets.size(); ++i) out[static_cast<std::size_t>(targets[i])] = sources[i];
      continue;
    }
    const auto is_match = [&](int i, int j) {
      return offer(j).origin.empty() ? weight(i).ordinal == ordinal(j) : weight(i).origin == offer(j).origin;
    };
    if (!is_partial && sources.size() > 1)
      for (int i : targets)
        if (const auto source = std::find_if(sources.begin(), sources.end(), [&](int j) { return is_match(i, j); });
            source != sources.end())
          out[static_cast<std::size_t>(i)] = *source;
    const bool all_matched =
        std::all_of(targets.begin(), targets.end(), [&](int i) { return out[static_cast<std::size_t>(i)] >= 0; });
    if (!all_matched)
      fail(ErrorKind::name, path, ": ", targets.size(), targets.size() == 1 ? " variable is" : " variables are",
           " named '", name, "', but the file has ", sources.size(), " (",
           join(sources, ", ", [&](int i) { return quote(offer(i).entry.name); }),
           "): the match is ambiguous; give the variables distinct names with a named root module",
           sources.size() > targets.size() ? ", or skip unneeded tensors with rules whose name is empty" : "");
  }
  return out;
}

}  // namespace karez
