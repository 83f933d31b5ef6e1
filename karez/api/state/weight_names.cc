// Maps names of weights in files to names in worlds.
#include "karez/api/state/weight_names.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <map>
#include <set>

#include "karez/base/suggest_names.h"
#include "karez/base/text.h"

namespace karez {
namespace {

// The text that each '*' of the pattern matches in the name, shortest first from the left; none if the pattern does not
// match.
std::optional<std::vector<std::string>> match_stars(std::string_view pattern, std::string_view name) {
  const std::vector<std::string> pieces = split(pattern, '*');  // separated by stars
  if (!name.starts_with(pieces[0])) return {};
  // Dynamic programming over (piece, end), so that no pattern takes long: the possible ends of piece i.
  std::vector<std::map<std::size_t, std::size_t>> ends(pieces.size());  // end -> end of the previous piece
  ends[0][pieces[0].size()] = 0;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    for (const auto& [begin, before] : ends[i - 1]) {
      const std::size_t dot = std::min(name.find('.', begin), name.size());
      for (std::size_t at = begin; at <= dot; ++at)
        if (name.substr(at).starts_with(pieces[i])) ends[i].emplace(at + pieces[i].size(), begin);
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

std::string filled(std::string_view name, const std::vector<std::string>& stars) {
  std::string out;
  std::size_t next = 0;
  for (char c : name) {
    if (c == '*') out += stars[next++];
    else out += c;
  }
  return out;
}

std::string print(const WeightRule& rule) { return cat("{", quote(rule.file), ", ", quote(rule.name), "}"); }

void check(const WeightRule& rule, const std::string& path) {
  const auto stars = [](const std::string& text) { return std::count(text.begin(), text.end(), '*'); };
  require(!rule.file.empty(), path, ": rule ", print(rule), " names no tensor of the file");
  require(rule.name.empty() || stars(rule.name) == stars(rule.file), path, ": rule ", print(rule), " has ",
          stars(rule.file), " stars on one side and ", stars(rule.name), " on the other");
  require(rule.parts >= 1 && rule.part >= 0 && rule.part < rule.parts, path, ": rule ", print(rule), ": part ",
          rule.part, " of ", rule.parts, " does not exist; the first is 0");
}

// "w#2" has the name w and the ordinal 2.
OfferedWeight offer(std::string name, const WeightEntry& entry, const WeightPart& part) {
  OfferedWeight out{std::move(name), {}, {}, entry, part};
  const auto at = out.name.find_last_of('#');
  if (at == out.name.npos || at + 1 == out.name.size() || out.name.size() - at > 9) return out;
  if (out.name.find_first_not_of("0123456789", at + 1) != out.name.npos) return out;
  out.ordinal = std::stoi(out.name.substr(at + 1));
  out.name.resize(at);
  return out;
}

// Checks that rules use all parts of an entry: a forgotten part would be lost silently.
void check_parts(const WeightEntry& entry, const std::vector<const WeightRule*>& rules, const std::string& path) {
  std::set<int> taken;
  for (const WeightRule* rule : rules) {
    require(rule->parts == rules[0]->parts && rule->axis == rules[0]->axis, path, ": tensor ", quote(entry.name),
            " is cut differently by rules ", print(*rules[0]), " and ", print(*rule));
    require(taken.insert(rule->part).second, path, ": tensor ", quote(entry.name), " is used by two rules: part ",
            rule->part, " of ", rule->parts, " again by ", print(*rule));
  }
  if (!rules.empty())
    require(static_cast<int>(taken.size()) == rules[0]->parts, path, ": tensor ", quote(entry.name), " is cut into ",
            rules[0]->parts, " parts, and ", taken.size(), " are used; a rule with an empty name skips one");
}

}  // namespace

std::vector<OfferedWeight> offered_weights(const WeightFiles& file, const std::vector<WeightRule>& rules) {
  const std::vector<WeightEntry>& entries = file.entries();
  const std::string& path = file.path();
  for (const WeightRule& rule : rules) check(rule, path);
  std::vector<OfferedWeight> out;
  std::set<const WeightRule*> used;
  for (const WeightEntry& entry : entries) {
    std::vector<const WeightRule*> matching;
    for (const WeightRule& rule : rules) {
      const auto stars = match_stars(rule.file, entry.name);
      if (!stars) continue;
      matching.push_back(&rule);
      if (!rule.name.empty())
        out.push_back(offer(filled(rule.name, *stars), entry, {rule.transposed, rule.part, rule.parts, rule.axis}));
    }
    used.insert(matching.begin(), matching.end());
    check_parts(entry, matching, path);
    if (matching.empty()) out.push_back(offer(entry.name, entry, {}));
  }
  for (const WeightRule& rule : rules)
    if (used.count(&rule) == 0)
      fail(ErrorKind::name, path, ": rule ", print(rule), " matches no tensor of the file; ",
           suggest_names(rule.file, entries, [](const WeightEntry& entry) { return entry.name; }));
  for (OfferedWeight& one : out)
    if (const auto note = file.notes().find(origin_note(one.entry.name)); note != file.notes().end())
      one.origin = note->second;
  std::map<std::pair<std::string, int>, std::string> seen;
  for (const OfferedWeight& one : out) {
    auto [at, fresh] = seen.emplace(std::pair(one.name, one.ordinal.value_or(0)), one.entry.name);
    require(ErrorKind::name, fresh, path, ": tensors ", quote(at->second), " and ", quote(one.entry.name),
            " are both named '", one.name, "' here");
  }
  return out;
}

std::string origin_note(const std::string& entry) { return "karez.origin." + entry; }

bool created_before(const std::string& origin, const std::string& other) {
  const auto number = [](const std::string& text) {
    const std::size_t at = text.find_last_of('#');
    const std::string numbers = at == text.npos ? "" : text.substr(at + 1), site = numbers.substr(0, numbers.find('.')),
                      copy = site.size() < numbers.size() ? numbers.substr(site.size() + 1) : "";
    return std::tuple(site.size(), site, copy.size(), copy);  // numbers without leading zeros
  };
  return number(origin) < number(other);
}

std::vector<int> match_weights(const std::vector<OfferedWeight>& offers, const std::vector<WantedWeight>& wanted,
                               const std::string& path, bool some) {
  std::map<std::string_view, std::vector<int>> offers_of, wanted_of;
  for (std::size_t i = 0; i < offers.size(); ++i) offers_of[offers[i].name].push_back(static_cast<int>(i));
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted_of[wanted[i].name].push_back(static_cast<int>(i));
  const auto offer = [&](int i) -> const OfferedWeight& { return offers[static_cast<std::size_t>(i)]; };
  const auto want = [&](int i) -> const WantedWeight& { return wanted[static_cast<std::size_t>(i)]; };
  const auto ordinal = [&](int i) { return offer(i).ordinal.value_or(0); };
  std::vector<int> out(wanted.size(), -1);
  for (auto& [name, who] : wanted_of) {
    auto& have = offers_of[name];
    if (have.empty()) continue;
    std::stable_sort(who.begin(), who.end(), [&](int a, int b) { return want(a).ordinal < want(b).ordinal; });
    std::stable_sort(who.begin(), who.end(),
                     [&](int a, int b) { return created_before(want(a).origin, want(b).origin); });
    std::sort(have.begin(), have.end(), [&](int a, int b) { return ordinal(a) < ordinal(b); });
    if (who.size() == have.size()) {
      for (std::size_t i = 0; i < who.size(); ++i) out[static_cast<std::size_t>(who[i])] = have[i];
      continue;
    }
    const auto same = [&](int i, int j) {
      return offer(j).origin.empty() ? want(i).ordinal == ordinal(j) : want(i).origin == offer(j).origin;
    };
    for (int i : who)
      if (const auto found =
              std::find_if(have.begin(), have.end(), [&](int j) { return !some && have.size() > 1 && same(i, j); });
          found != have.end())
        out[static_cast<std::size_t>(i)] = *found;
    const bool told = std::all_of(who.begin(), who.end(), [&](int i) { return out[static_cast<std::size_t>(i)] >= 0; });
    require(ErrorKind::name, told, path, ": ", who.size(), who.size() == 1 ? " variable is" : " variables are",
            " named '", name, "', the file has ", have.size(), " (",
            join(have, ", ", [&](int i) { return quote(offer(i).entry.name); }),
            "): the match is ambiguous; give them distinct names by a named root module",
            have.size() > who.size() ? ", or skip unneeded tensors by rules that map names to an empty one" : "");
  }
  return out;
}

}  // namespace karez
