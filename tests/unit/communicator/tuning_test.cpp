// Tests communicators with tunings: rank 0's file decides for all ranks, and a file that cannot be used is reported.
#include "wreath/tuning.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "src/communicator/options.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;
constexpr std::size_t kBytes = 1 << 20;
constexpr std::string_view kTuned = "ring lanes=1 tile=64K order=ring";

Tuning ring_tuning() {
  Tuning tuning = empty_tuning();
  tuning.times = {{Collective::AllReduce, 2, "", kBytes, "ring", 64 << 10, 10}};
  return tuning;
}

class Tunings : public testing::Test {
 protected:
  CommunicatorOptions named(const std::string& path) {
    CommunicatorOptions options;
    options.tuning = path;
    return options;
  }
  std::string plan(const CommunicatorOptions& options) {
    return Communicator::create_local(2, options).value().at(1).plan_for(Collective::AllReduce, kBytes);
  }
  std::string untuned() { return plan(named("none")); }

  test::Folder folder_;
  std::string path_ = folder_ / "tuning.json";
  test::Environment environment_{{{"WREATH_TUNING", ""}, {"XDG_CACHE_HOME", folder_.path()}}};
};

TEST_F(Tunings, OfThisMachineAreFoundInTheCache) {
  EXPECT_EQ(plan({}), untuned());
  ASSERT_TRUE(write_tuning(ring_tuning(), default_tuning_path()));
  EXPECT_EQ(plan({}), kTuned);
  EXPECT_NE(untuned(), kTuned);
}

TEST_F(Tunings, AreNamedByOptionOrVariable) {
  ASSERT_TRUE(write_tuning(ring_tuning(), path_));
  EXPECT_EQ(plan({}), untuned());
  EXPECT_EQ(plan(named(path_)), kTuned);
  const test::Environment variable({{"WREATH_TUNING", path_}});
  EXPECT_EQ(plan({}), kTuned);
  EXPECT_NE(plan(named("none")), kTuned);
}

TEST_F(Tunings, ThatCannotBeUsedInTheCacheAreOneWarning) {
  Tuning elsewhere = ring_tuning();
  elsewhere.machine = "Abacus";
  ASSERT_TRUE(write_tuning(elsewhere, default_tuning_path()));
  testing::internal::CaptureStderr();
  EXPECT_EQ(plan({}), untuned());
  EXPECT_EQ(plan({}), untuned());
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told,
              testing::AllOf(HasSubstr(default_tuning_path()), HasSubstr("another machine"), HasSubstr("Abacus")));
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
}

TEST_F(Tunings, ThatAreNamedAndCannotBeUsedAreErrors) {
  const auto expect_error = [&](const std::string& words) {
    const auto made = Communicator::create_local(2, named(path_));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::InvalidArgument);
    EXPECT_THAT(made.error().message, testing::AllOf(HasSubstr(path_), HasSubstr(words)));
  };
  expect_error("No such file");
  std::ofstream(path_) << R"({"format": "wreath-tuning", )";
  expect_error("not JSON");
  Tuning elsewhere = ring_tuning();
  elsewhere.library = "0.0.0";
  ASSERT_TRUE(write_tuning(elsewhere, path_));
  expect_error("another version");
}

// Rank 1 has another file, or none. Rank 0's choices hold for all ranks, also in communicators made from theirs.
TEST_F(Tunings, OfRankZeroDecideForAllRanks) {
  ASSERT_TRUE(write_tuning(ring_tuning(), path_));
  for (const bool first_is_tuned : {true, false}) {
    const std::string expected = first_is_tuned ? std::string(kTuned) : untuned();
    const UniqueId id = UniqueId::create().value();
    const auto rank = [&](int me, const std::string& tuning) {
      Communicator communicator = Communicator::create(id, me, 2, named(tuning)).value();
      EXPECT_EQ(communicator.plan_for(Collective::AllReduce, kBytes), expected) << "rank " << me;
      Communicator child = communicator.duplicate().value();
      EXPECT_EQ(child.plan_for(Collective::AllReduce, kBytes), expected) << "rank " << me;
      std::vector<float> values(kBytes / sizeof(float), 1.5F);
      EXPECT_TRUE(child.all_reduce(std::span(values)));
      EXPECT_EQ(values.back(), 3.0F);
    };
    const std::jthread other([&] { rank(1, first_is_tuned ? folder_ / "missing" : path_); });
    rank(0, first_is_tuned ? path_ : "none");
  }
}

TEST_F(Tunings, TravelInTheSettingsOfRankZero) {
  ASSERT_TRUE(write_tuning(ring_tuning(), path_));
  AgreedOptions options = complete_options(named(path_)).value();
  ASSERT_TRUE(read_rules(options));
  EXPECT_EQ(decode_options(encode_options(options)).value().measured.to_text(), options.measured.to_text());
  EXPECT_THAT(options.measured.to_text(), HasSubstr("all_reduce 2 mapped 0 2097152 ring 65536\n"));
  std::string hostile = encode_options(options);
  hostile.replace(hostile.find("ring 65536"), 4, "king");
  const auto refused = decode_options(hostile);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::StartupFailed);
}

}  // namespace
}  // namespace wreath
