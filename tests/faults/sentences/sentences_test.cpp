// Tests each row of the table. The situation is made over each of its transports, side by side, and each rank must
// report the right error.
#include <deque>

#include "tests/faults/sentences/scene.hpp"
#include "wreath/recording.hpp"

namespace wreath::testing_support::sentences {
namespace {

class Sentences : public ::testing::TestWithParam<Row> {};

TEST_P(Sentences, NameWhoAndWhy) {
  std::deque<Scene> scenes;
  for (const std::string& transport : GetParam().transports) {
    scenes.emplace_back(GetParam(), transport);
    if (const std::string needs = scenes.back().needs(); !needs.empty())
      GTEST_SKIP() << "run it where it can: it " << needs;
  }
  for (Scene& scene : scenes) scene.play();
  for (Scene& scene : scenes) scene.begin();
  for (Scene& scene : scenes) scene.check();
}

std::string name_of(const ::testing::TestParamInfo<Row>& row) { return row.param.situation; }

INSTANTIATE_TEST_SUITE_P(Calls, Sentences, ::testing::ValuesIn(rows_of_calls()), name_of);
INSTANTIATE_TEST_SUITE_P(Starts, Sentences, ::testing::ValuesIn(rows_of_starts()), name_of);

// Recordings say the same as the errors.
TEST(Recordings, TellWhoDiffers) {
  const Row row{
      .situation = "Recordings",
      .scripts = {"all_reduce 100;all_reduce 800", "all_reduce 100;all_reduce 800", "all_reduce 100;all_reduce 900"},
      .errors = {{{0, 1, 2}, ErrorCode::Mismatch, {0, 1, 2}, {"800", "900"}}}};
  for (const std::string& transport : row.transports) {
    Scene scene(row, transport);
    scene.play();
    scene.begin();
    scene.check();
    std::vector<Recording> recordings;
    for (int rank = 0; rank < 3; ++rank) {
      auto recording = read_recording(scene.folder() / ("wreath-" + std::to_string(rank) + ".json"));
      ASSERT_TRUE(recording) << recording.error().message;
      recordings.push_back(std::move(*recording));
    }
    const auto told = diagnose(recordings);
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].finding, Finding::Mismatch);
    EXPECT_EQ(told[0].number, 2u);
    EXPECT_EQ(told[0].culprits, std::vector<Rank>{2});
  }
}

TEST(Recordings, HoldMessagesThatWereNotMatched) {
  const Row row{.situation = "Recordings",
                .scripts = {"all_reduce 100;recv 1 100 float32", "all_reduce 100;watch", "all_reduce 100;watch"},
                .errors = {{{0, 1, 2}, ErrorCode::Timeout, {1}, {"has not entered"}}}};
  for (const std::string& transport : row.transports) {
    Scene scene(row, transport);
    scene.play();
    scene.begin();
    scene.check();
    const auto recording = read_recording(scene.folder() / "wreath-0.json");
    ASSERT_TRUE(recording) << recording.error().message;
    ASSERT_EQ(recording->calls.size(), 1u);
    ASSERT_EQ(recording->exchanges.size(), 1u);
    EXPECT_EQ(recording->exchanges[0].collective, Collective::Exchange);
    EXPECT_EQ(recording->exchanges[0].state, CallState::Failed);
    EXPECT_EQ(recording->exchanges[0].root, 1);
    EXPECT_EQ(recording->exchanges[0].count, 100u);
  }
}

}  // namespace
}  // namespace wreath::testing_support::sentences
