// Tests of elements that functions of the user return.
#include "karez/data/stages/element.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/data/dataset.h"
#include "karez/data/stages/sequential_reader.h"

namespace karez::data {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

void read_mapped(const Element& result) {
  SequentialReader reader(range(2).map([=](const Element&) { return result; }).batch(2));
  reader.start();
  reader.next();
}

TEST(Element, AFunctionMustReturnACompleteElement) {
  Element without_structure, two_fields = element({HostArray::of<float>({}, {1}), HostArray::of<float>({}, {2})});
  two_fields.structure = leaf_structure();
  EXPECT_THAT([&] { read_mapped(without_structure); },
              ThrowsMessage<Error>(HasSubstr("map: the function returned an element without a structure")));
  EXPECT_THAT(
      [&] { read_mapped(two_fields); },
      ThrowsMessage<Error>(HasSubstr("map: the function returned an element of 2 fields with the structure *")));
  EXPECT_THAT([&] { read_mapped(element(HostArray())); },
              ThrowsMessage<Error>(HasSubstr("map: the function returned an array that is not initialised")));
}

TEST(Element, AGeneratorMustReturnCompleteElements) {
  const auto read = [](Element result) {
    const auto make = [result](std::int64_t) { return Generator{[result] { return result; }}; };
    SequentialReader reader(from_generator(make, "numbers"));
    reader.start();
    return reader.next();
  };
  Element two_fields = element({HostArray::of<float>({}, {1}), HostArray::of<float>({}, {2})});
  two_fields.structure = nullptr;  // a tuple by default
  EXPECT_EQ(print(*read(two_fields)->structure), "(*, *)");
  two_fields.structure = leaf_structure();
  EXPECT_THAT(
      [&] { read(two_fields); },
      ThrowsMessage<Error>(HasSubstr("numbers: the function returned an element of 2 fields with the structure *")));
  EXPECT_THAT([&] { read(element(HostArray())); },
              ThrowsMessage<Error>(HasSubstr("numbers: the function returned an array that is not initialised")));
}

TEST(Element, AStructureIsPrintedAsPythonPrintsIt) {
  auto dict = std::make_shared<Structure>();
  dict->kind = Structure::Kind::dict;
  dict->keys = {"x", "y"};
  auto list = std::make_shared<Structure>();
  list->kind = Structure::Kind::list;
  list->children = {leaf_structure(), leaf_structure()};
  dict->children = {leaf_structure(), list};
  const StructureRef tuple = tuple_structure({leaf_structure(), dict});
  EXPECT_EQ(print(*tuple), "(*, {\"x\": *, \"y\": [*, *]})");
  EXPECT_EQ(leaves(*tuple), 4);
  EXPECT_EQ(print(*tuple_structure({leaf_structure()})), "(*,)");
  EXPECT_TRUE(*tuple == *tuple_structure({leaf_structure(), dict}));
  EXPECT_FALSE(*tuple == *tuple_structure({dict, leaf_structure()}));
}

}  // namespace
}  // namespace karez::data
