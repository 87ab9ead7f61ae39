// Tests JSON values and their text in both directions.
#include <gmock/gmock.h>

#include <cstdint>
#include <limits>
#include <sstream>

#include "src/json/value.hpp"

namespace wreath {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Json, WritesMembersInTheirOrderOrSorted) {
  Json json{{"rank", 1}, {"host", "a"}, {"links", {1, 2.5, true, nullptr}}};
  json["link"] = Json::object();
  EXPECT_EQ(json.dump(), R"({"rank":1,"host":"a","links":[1,2.5,true,null],"link":{}})");
  EXPECT_EQ(json.dump({.sorted = true}), R"({"host":"a","link":{},"links":[1,2.5,true,null],"rank":1})");
  EXPECT_EQ(Json({{"a", Json::array()}}).dump({.indent = 1}), "{\n \"a\": []\n}");
}

TEST(Json, IsAnObjectWhereAllEntriesArePairsWithAName) {
  EXPECT_TRUE(Json({{"a", 1}, {"b", 2}}).is_object());
  EXPECT_TRUE(Json({{"a", 1}, {2, "b"}}).is_array());
  EXPECT_TRUE(Json({{"a", 1, 2}}).is_array());
  EXPECT_TRUE(Json(std::vector<std::string>{"a", "b"}).is_array());
}

TEST(Json, KeepsNumbersToTheLastBit) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  const Json json = Json::parse(Json{kMost, kLeast, 0.1, 1e300}.dump());
  EXPECT_EQ(json[0].get<std::uint64_t>(), kMost);
  EXPECT_EQ(json[1].get<std::int64_t>(), kLeast);
  EXPECT_EQ(json[2].get<double>(), 0.1);
  EXPECT_EQ(json[3].get<double>(), 1e300);
  EXPECT_FALSE(json[0].integer());
  EXPECT_EQ(json[1].integer(), kLeast);
}

TEST(Json, RefusesAnotherTypeAndWhatDoesNotFit) {
  const Json json = Json::parse(R"({"text":"a","big":300,"minus":-1,"part":1.5,"list":["a",1]})");
  EXPECT_THROW(json.at("text").get<int>(), JsonError);
  EXPECT_THROW(json.at("big").get<std::int8_t>(), JsonError);
  EXPECT_THROW(json.at("minus").get<std::uint64_t>(), JsonError);
  EXPECT_THROW(json.at("minus").get<std::uint32_t>(), JsonError);
  EXPECT_THROW(json.at("part").get<int>(), JsonError);
  EXPECT_THROW(json.at("big").get<bool>(), JsonError);
  EXPECT_THROW(json.at("list").get<std::vector<std::string>>(), JsonError);
  EXPECT_THROW(json.at("none"), JsonError);
  EXPECT_THROW(json.at("list").at(2), JsonError);
  EXPECT_THROW(json.at("list").items(), JsonError);
  EXPECT_THROW(Json(1)["a"], JsonError);
  EXPECT_THROW(Json(1).push_back(2), JsonError);
}

TEST(Json, FindsMembersAndNullWhereThereIsNone) {
  const Json json = Json::parse(R"({"a":{"b":"c"}})");
  EXPECT_EQ(json["a"]["b"].get<std::string>(), "c");
  EXPECT_TRUE(json["b"]["c"].is_null());
  EXPECT_EQ(json["a"].text_or("b", "d"), "c");
  EXPECT_EQ(json.text_or("a", "d"), "d");
  EXPECT_TRUE(json.contains("a"));
  EXPECT_EQ(json["a"].begin(), json["a"].end());
}

TEST(Json, TakesTheLastOfANameThatATextHasSeveralTimes) {
  const Json json = Json::parse(R"({"b":1,"a":2,"b":3,"c":4,"b":5,"a":6})");
  EXPECT_EQ(json.dump(), R"({"b":5,"a":6,"c":4})");
}

TEST(Json, SaysWhereATextStopsBeingJson) {
  for (const char* const text : {"", "{", "[1,]", "{\"a\" 1}", "1 2", "nul", "\"\xff\"", "1e999"}) {
    EXPECT_FALSE(Json::read(text)) << text;
    EXPECT_THROW(Json::parse(text), JsonError) << text;
  }
  std::istringstream stream("[1,\n x]");
  try {
    static_cast<void>(Json::parse(stream));
    FAIL() << "it is not JSON";
  } catch (const JsonError& error) {
    EXPECT_THAT(error.what(), HasSubstr("line 2, column 2"));
  }
}

// The JSON library would end at a zero byte and take what stands before it.
TEST(Json, DoesNotEndAtAByteZero) {
  for (const std::string_view text : {std::string_view("{\"a\":1}\0", 8), std::string_view("{\"a\":1}\0{", 9),
                                      std::string_view("\0{}", 3), std::string_view("[\"a\0b\"]", 7)}) {
    EXPECT_FALSE(Json::read(text));
    std::istringstream stream{std::string(text)};
    EXPECT_THROW(static_cast<void>(Json::parse(stream)), JsonError);
  }
}

TEST(Json, WritesUtf8AloneOrReplacesWhatIsNot) {
  const Json json("a\xff");
  EXPECT_THROW(static_cast<void>(json.dump()), JsonError);
  EXPECT_EQ(json.dump({.strict = false}), "\"a\xEF\xBF\xBD\"");
}

TEST(Json, IsAsDeepAsTheTextSays) {
  constexpr std::size_t kLevels = 1'000'000;
  const auto json = Json::read(std::string(kLevels, '[') + std::string(kLevels, ']'));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->size(), 1u);
  EXPECT_FALSE(Json::read(std::string(kLevels, '[')));
  std::string objects;
  for (std::size_t i = 0; i < kLevels / 10; ++i) objects += "{\"a\":";
  EXPECT_TRUE(Json::read(objects + "1" + std::string(kLevels / 10, '}')));
}

TEST(Json, ListsWhatItHolds) {
  const Json json = Json::parse(R"({"ranks":[3,1,2],"names":["a"]})");
  EXPECT_THAT(json.at("ranks").get<std::vector<int>>(), ElementsAre(3, 1, 2));
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items()) names.push_back(name + std::to_string(value.size()));
  EXPECT_THAT(names, ElementsAre("ranks3", "names1"));
}

}  // namespace
}  // namespace wreath
