// Tests the results of alternate_perf.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>

#include "perf/base/machine.hpp"
#include "src/json/value.hpp"
#include "tests/unit/commands/command.hpp"

namespace wreath::alternate {
namespace {

using testing::HasSubstr;
using testing_support::run_program;

Json measured(const std::string& flags, std::string& text) {
  const std::string path = "/tmp/wreath-alternate-" + std::to_string(::getpid()) + ".json";
  const auto outcome = run_program("alternate_perf --rounds 9 --calls 20 " + flags + " --json " + path);
  text = outcome.text;
  EXPECT_EQ(outcome.exit_code, 0) << text;
  std::ifstream file(path);
  Json json = Json::read(file).value_or(Json());
  ::unlink(path.c_str());
  return json;
}

TEST(AlternatePerf, MeasuresSixteenDifferentCallsBothWays) {
  std::string text;
  const Json json = measured("--transport shm", text);
  ASSERT_EQ(json["kinds"].size(), 16U) << text;
  std::set<std::string> kinds;
  double sum_ns = 0;
  for (const Json& kind : json["kinds"]) {
    Json call = {{"collective", kind["collective"]},
                 {"count", kind["count"]},
                 {"dtype", kind["dtype"]},
                 {"op", kind["op"]},
                 {"root", kind["root"]},
                 {"in_place", kind["in_place"]}};
    kinds.insert(call.dump());
    for (const char* name : {"first_us", "repeated_ns", "alternating_ns"}) {
      EXPECT_GT(kind[name].get<double>(), 0) << name << " of " << call.dump();
    }
    EXPECT_LE(kind["interval_ns"][0].get<double>(), kind["more_ns"].get<double>());
    EXPECT_GE(kind["interval_ns"][1].get<double>(), kind["more_ns"].get<double>());
    sum_ns += kind["alternating_ns"].get<double>();
  }
  EXPECT_EQ(kinds.size(), 16U) << "each kind differs from all others";
  EXPECT_GT(sum_ns, 0);
  EXPECT_EQ(json["transport"].get<std::string>().substr(0, 3), "shm");
  EXPECT_EQ(json["ranks"].get<int>(), 2);
  EXPECT_THAT(text, HasSubstr("# mean of all kinds: "));
}

TEST(AlternatePerf, NeedsACoreForEachRank) {
  const int ranks = static_cast<int>(perf::allowed_cores().size()) + 1;
  if (ranks > 64) GTEST_SKIP() << "it takes 64 ranks at most: run it on fewer cores";
  const auto outcome = run_program(fmt::format("alternate_perf --ranks {} --rounds 1 --calls 1", ranks));
  EXPECT_EQ(outcome.exit_code, 77) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr(fmt::format("needs a core for each of {} ranks", ranks)));
}

}  // namespace
}  // namespace wreath::alternate
