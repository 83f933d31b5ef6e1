// Draws data sets and computes their elements with lists.
#include "karez/data/stages/test_random_datasets.h"

#include <algorithm>
#include <filesystem>

#include "karez/base/philox.h"
#include "karez/data/stages/sequential_reader.h"

namespace karez::data {
namespace {

using Model = std::function<Numbers(std::int64_t)>;

Element scalar(std::int64_t number) { return element(HostArray::of<std::int64_t>({}, {number})); }

// A hash of the numbers of a batch that depends on their order and number.
std::int64_t digest(const Numbers& numbers) {
  std::int64_t out = static_cast<std::int64_t>(numbers.size());
  for (std::int64_t number : numbers) out = (out * 31 + number) % 1'000'003;
  return out;
}
Numbers numbers_of(const Element& batch, std::size_t field = 0) {
  const auto data = array_of(batch, field).data<std::int64_t>();
  return Numbers(data.begin(), data.end());
}
Dataset digests(const Dataset& batches, const MapOptions& options) {
  return batches.map([](const Element& batch) { return scalar(digest(numbers_of(batch))); }, options);
}

// The data set that flat_map and interleave make from a number, and its numbers.
Dataset inner_dataset(std::int64_t number) {
  return range(number % 4).map([number](const Element& e) { return scalar(10 * number + number_of(e)); });
}
Numbers inner_numbers(std::int64_t number) {
  Numbers out;
  for (std::int64_t i = 0; i < number % 4; ++i) out.push_back(10 * number + i);
  return out;
}

Numbers interleaved(const Numbers& outer, std::size_t cycle, std::size_t block) {
  struct Open {
    Numbers numbers;
    std::size_t next = 0;
    bool open = false;
  };
  std::vector<Open> places(cycle);
  std::size_t used = 0;
  auto open_next = [&](Open& place) {
    place = {};
    if (used == outer.size()) return;
    place = {inner_numbers(outer[used++]), 0, true};
  };
  for (Open& place : places) open_next(place);
  Numbers out;
  for (std::size_t turn = 0; std::any_of(places.begin(), places.end(), [](const Open& p) { return p.open; });
       turn = (turn + 1) % cycle) {
    Open& place = places[turn];
    for (std::size_t taken = 0; place.open && taken < block;) {
      if (place.next < place.numbers.size()) {
        out.push_back(place.numbers[place.next++]);
        ++taken;
      } else {
        open_next(place);
        taken = 0;
      }
    }
  }
  return out;
}

ModelledDataset random_source(Draw& draw) {
  const std::int64_t count = draw.below(5) == 0 ? draw.below(3) : draw.between(1, 40);
  if (draw.chance(0.5)) {
    return {range(count), [count](std::int64_t) {
              Numbers out;
              for (std::int64_t i = 0; i < count; ++i) out.push_back(i);
              return out;
            }};
  }
  // A generator; with a state in one of two cases.
  const bool has_state = draw.chance(0.5);
  auto make = [count, has_state](std::int64_t epoch) {
    auto next = std::make_shared<std::int64_t>(0);
    Generator generator;
    generator.next = [=]() -> std::optional<Element> {
      if (*next == count) return std::nullopt;
      return scalar(7 * (*next)++ + epoch);
    };
    if (has_state) {
      generator.state = [next] { return cat("at ", *next); };
      generator.restore = [next](const std::string& text) { *next = std::stoll(text.substr(3)); };
    }
    return generator;
  };
  return {from_generator(make), [count](std::int64_t epoch) {
            Numbers out;
            for (std::int64_t i = 0; i < count; ++i) out.push_back(7 * i + epoch);
            return out;
          }};
}

Model mapped(Model model, std::function<Numbers(const Numbers&)> f) {
  return [model = std::move(model), f = std::move(f)](std::int64_t epoch) { return f(model(epoch)); };
}

// Consecutive groups; the last one may be smaller.
std::vector<Numbers> groups(const Numbers& in, std::int64_t n, std::int64_t shift, bool drop) {
  std::vector<Numbers> out;
  for (std::int64_t begin = 0; begin < static_cast<std::int64_t>(in.size()); begin += shift) {
    const auto end = std::min(static_cast<std::int64_t>(in.size()), begin + n);
    if (end - begin == n || !drop) out.emplace_back(in.begin() + begin, in.begin() + end);
  }
  return out;
}
Numbers group_digests(const std::vector<Numbers>& in) {
  Numbers out;
  for (const Numbers& group : in) out.push_back(digest(group));
  return out;
}

ModelledDataset random_stage(Draw& draw, ModelledDataset in, const RandomDatasetOptions& options) {
  MapOptions lanes;
  lanes.parallel = draw.chance(0.4) ? static_cast<int>(draw.between(2, 4)) : 1;
  if (options.lanes != nullptr) lanes.parallel = static_cast<int>(options.lanes->between(1, 3));
  if (options.automatic && draw.chance(0.5)) lanes.parallel = automatic;
  lanes.deterministic = !options.unordered || draw.chance(0.5);
  const std::int64_t n = draw.between(1, 6);
  const bool groups_elements = n % 2 == 0;
  Model model = in.model;
  const Dataset& data = in.dataset;
  switch (draw.below(17)) {
    case 0:
      if (groups_elements)
        lanes.group = [](std::span<GroupItem> items) {
          for (GroupItem& item : items) item.out = scalar(3 * number_of(item.in) + 1);
        };
      return {data.map([](const Element& e) { return scalar(3 * number_of(e) + 1); }, lanes),
              mapped(model, [](Numbers v) {
                for (auto& x : v) x = 3 * x + 1;
                return v;
              })};
    case 1:
      if (groups_elements)
        lanes.group = [](std::span<GroupItem> items) {
          for (GroupItem& item : items) item.keep = number_of(item.in) % 3 != 0;
        };
      return {data.filter([](const Element& e) { return number_of(e) % 3 != 0; }, lanes), mapped(model, [](Numbers v) {
                std::erase_if(v, [](std::int64_t x) { return x % 3 == 0; });
                return v;
              })};
    case 2:
      return {data.take(3 * n), mapped(model, [n](Numbers v) {
                v.resize(std::min(v.size(), static_cast<std::size_t>(3 * n)));
                return v;
              })};
    case 3:
      return {data.skip(n), mapped(model, [n](Numbers v) {
                v.erase(v.begin(), v.begin() + std::min(static_cast<std::int64_t>(v.size()), n));
                return v;
              })};
    case 4: {
      const std::int64_t index = draw.below(n);
      return {data.shard(n, index), mapped(model, [n, index](const Numbers& v) {
                Numbers out;
                for (std::size_t i = 0; i < v.size(); ++i)
                  if (static_cast<std::int64_t>(i) % n == index) out.push_back(v[i]);
                return out;
              })};
    }
    case 5: {
      const std::int64_t count = draw.below(4);
      return {data.repeat(count), [model, count](std::int64_t epoch) {
                Numbers out;
                for (std::int64_t k = 0; k < count; ++k) {
                  const Numbers pass = model(epoch * count + k);
                  out.insert(out.end(), pass.begin(), pass.end());
                }
                return out;
              }};
    }
    case 6: {
      ShuffleOptions shuffle{
          .buffer = draw.between(1, 12), .seed = static_cast<std::uint64_t>(n), .reshuffle = draw.chance(0.5)};
      const Dataset shuffled = data.shuffle(shuffle);
      // The order is taken from the stage itself; only the set of elements can be computed independently.
      return {shuffled, [shuffled, model](std::int64_t epoch) {
                Numbers order = read_all(shuffled, epoch), sorted = order, expected = model(epoch);
                std::sort(sorted.begin(), sorted.end());
                std::sort(expected.begin(), expected.end());
                require(sorted == expected, "shuffle loses or repeats elements");
                return order;
              }};
    }
    case 7: {
      const bool drop = draw.chance(0.5);
      return {digests(data.batch(n, drop ? LastBatch::drop : LastBatch::keep), lanes),
              mapped(model, [n, drop](const Numbers& v) { return group_digests(groups(v, n, n, drop)); })};
    }
    case 8: {
      const std::int64_t shift = draw.between(1, 7);
      const bool drop = draw.chance(0.5);
      return {digests(data.window(n, shift, drop ? LastBatch::drop : LastBatch::keep), lanes),
              mapped(model, [n, shift, drop](const Numbers& v) { return group_digests(groups(v, n, shift, drop)); })};
    }
    case 9: return {data.batch(n).unbatch(), model};
    case 10:
      return {data.flat_map([](const Element& e) { return inner_dataset(number_of(e)); }),
              mapped(model, [](const Numbers& v) {
                Numbers out;
                for (std::int64_t x : v)
                  for (std::int64_t y : inner_numbers(x)) out.push_back(y);
                return out;
              })};
    case 11: {
      InterleaveOptions interleave{static_cast<int>(n), static_cast<int>(draw.between(1, 3)), draw.chance(0.5)};
      if (options.lanes != nullptr) interleave.parallel = options.lanes->chance(0.5);
      if (options.automatic) interleave.tuned = draw.chance(0.5);
      return {data.interleave([](const Element& e) { return inner_dataset(number_of(e)); }, interleave),
              mapped(model, [interleave](const Numbers& v) {
                return interleaved(v, static_cast<std::size_t>(interleave.cycle),
                                   static_cast<std::size_t>(interleave.block));
              })};
    }
    case 12: return {data.prefetch(options.automatic && n > 3 ? automatic : static_cast<int>(n)), model};
    case 13: {
      ModelledDataset other = random_source(draw);
      return {concat({data, other.dataset}), [model, second = other.model](std::int64_t epoch) {
                Numbers out = model(epoch), rest = second(epoch);
                out.insert(out.end(), rest.begin(), rest.end());
                return out;
              }};
    }
    case 14: {
      ModelledDataset other = random_source(draw);
      return {
          zip({data, other.dataset})
              .map(
                  [](const Element& e) {
                    return scalar(array_of(e, 0).data<std::int64_t>()[0] * 31 + array_of(e, 1).data<std::int64_t>()[0]);
                  },
                  lanes),
          [model, second = other.model](std::int64_t epoch) {
            const Numbers a = model(epoch), b = second(epoch);
            Numbers out;
            for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) out.push_back(a[i] * 31 + b[i]);
            return out;
          }};
    }
    case 15: {
      const bool in_file = draw.chance(0.5);
      return {in_file ? data.cache(std::filesystem::temp_directory_path()) : data.cache(),
              [model](std::int64_t) { return model(0); }};
    }
    default: {
      // Buckets by the remainder; their digests come out when a bucket is full, and at the end.
      return {digests(data.bucket_by_length([](const Element& e) { return ((number_of(e) % 3) + 3) % 3; }, {1, 2},
                                            {n, 2, 1}),
                      lanes),
              mapped(model, [n](const Numbers& v) {
                std::vector<Numbers> buckets(3);
                const std::size_t sizes[] = {static_cast<std::size_t>(n), 2, 1};
                Numbers out;
                for (std::int64_t x : v) {
                  const auto b = static_cast<std::size_t>(((x % 3) + 3) % 3);
                  buckets[b].push_back(x);
                  if (buckets[b].size() < sizes[b]) continue;
                  out.push_back(digest(buckets[b]));
                  buckets[b].clear();
                }
                for (const Numbers& bucket : buckets)
                  if (!bucket.empty()) out.push_back(digest(bucket));
                return out;
              })};
    }
  }
}

}  // namespace

std::int64_t Draw::below(std::int64_t limit) {
  return static_cast<std::int64_t>(philox_word(seed_, 17, count_++) % static_cast<std::uint64_t>(limit));
}

std::int64_t number_of(const Element& element) { return array_of(element).data<std::int64_t>()[0]; }

Numbers read_all(const Dataset& dataset, std::int64_t epoch) {
  SequentialReader reader(dataset);
  reader.start({epoch});
  Numbers out;
  while (std::optional<Element> element = reader.next()) out.push_back(number_of(*element));
  return out;
}

ModelledDataset random_dataset(Draw& draw, const RandomDatasetOptions& options) {
  ModelledDataset out = random_source(draw);
  const std::int64_t stages = draw.between(1, options.stages);
  const std::int64_t snapshot_after = options.snapshot.empty() ? -1 : draw.between(0, stages);
  for (std::int64_t i = 0; i <= stages; ++i) {
    if (i == snapshot_after)
      out = {out.dataset.snapshot(options.snapshot), [model = out.model](std::int64_t) { return model(0); }};
    if (i < stages) out = random_stage(draw, std::move(out), options);
  }
  if (!options.errors) return out;
  const std::int64_t good = draw.below(20);
  auto count = std::make_shared<std::atomic<std::int64_t>>(0);
  out.dataset = out.dataset.map([=](const Element& e) {
    require(ErrorKind::data, ++*count <= good, "planted error");
    return e;
  });
  return out;
}

}  // namespace karez::data
