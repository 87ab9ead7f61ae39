// `wreath why` draws these conclusions from the recordings of a communicator.
#include <gmock/gmock.h>

#include "wreath/recording.hpp"

namespace wreath {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CallRecord call_of(std::uint64_t number, CallState state, DataType dtype = DataType::Float32,
                   std::uint64_t count = 1024) {
  CallRecord call;
  call.number = number;
  call.state = state;
  call.dtype = dtype;
  call.count = count;
  return call;
}

// Returns a recording of the calls 1 .. last, all done except the last one, which has the state `last_state`.
Recording rank_at(Rank rank, int ranks, std::uint64_t last, CallState last_state) {
  Recording recording;
  recording.rank = rank;
  recording.ranks = ranks;
  recording.communicator = 1;
  recording.taken_ns = 100'000'000;
  for (std::uint64_t number = 1; number <= last; ++number) {
    recording.calls.push_back(call_of(number, number == last ? last_state : CallState::Done));
  }
  return recording;
}

Diagnosis only(const std::vector<Recording>& recordings) {
  const std::vector<Diagnosis> diagnoses = diagnose(recordings);
  EXPECT_EQ(diagnoses.size(), 1u);
  return diagnoses.front();
}

TEST(Diagnose, NamesTheRankThatIsBehind) {
  const Diagnosis diagnosis = only({rank_at(0, 4, 17, CallState::Entered), rank_at(1, 4, 17, CallState::Running),
                                    rank_at(2, 4, 16, CallState::Done), rank_at(3, 4, 17, CallState::Entered)});
  EXPECT_EQ(diagnosis.finding, Finding::Behind);
  EXPECT_THAT(diagnosis.culprits, ElementsAre(2));
  EXPECT_EQ(diagnosis.number, 17u);
  EXPECT_THAT(diagnosis.sentences,
              ElementsAre("rank 2 last finished #16 and never entered #17 all_reduce float32 x 1024; "
                          "ranks 0, 1, 3 wait in it"));
}

TEST(Diagnose, TellsARankThatIsStuckInAnOlderCall) {
  const Diagnosis diagnosis = only({rank_at(0, 2, 3, CallState::Entered), rank_at(1, 2, 2, CallState::Running)});
  EXPECT_THAT(diagnosis.sentences, ElementsAre("rank 1 is still in #2 and never entered #3 all_reduce float32 x 1024; "
                                               "rank 0 waits in it"));
}

TEST(Diagnose, CallsRanksThatWereReadOnTheMoveHealthy) {
  std::vector<Recording> ranks{rank_at(0, 2, 3, CallState::Running), rank_at(1, 2, 2, CallState::Running)};
  ranks[0].taken_ns -= 1;
  const Diagnosis moving = only(ranks);
  EXPECT_EQ(moving.finding, Finding::Healthy);
  EXPECT_THAT(moving.culprits, IsEmpty());
  EXPECT_THAT(moving.sentences,
              ElementsAre("ranks move: they were read in calls #2 to #3, and none has waited 100 ms for another"));
  ranks[0].error = "aborted";
  EXPECT_EQ(only(ranks).finding, Finding::Behind);
}

TEST(Diagnose, TellsARankThatNeverCalled) {
  const Diagnosis diagnosis = only({rank_at(0, 2, 1, CallState::Entered), rank_at(1, 2, 0, CallState::Done)});
  EXPECT_EQ(diagnosis.finding, Finding::Behind);
  EXPECT_THAT(diagnosis.sentences.front(), HasSubstr("rank 1 has not entered any call and never entered #1"));
}

TEST(Diagnose, SaysWhatDiffersAndPrefersTheMinority) {
  std::vector<Recording> ranks;
  for (Rank rank = 0; rank < 4; ++rank) ranks.push_back(rank_at(rank, 4, 3, CallState::Done));
  for (Recording& recording : ranks) {
    const DataType dtype = recording.rank == 1 ? DataType::Int32 : DataType::Float32;
    recording.calls.push_back(call_of(4, CallState::Failed, dtype, 100));
  }
  const Diagnosis diagnosis = only(ranks);
  EXPECT_EQ(diagnosis.finding, Finding::Mismatch);
  EXPECT_THAT(diagnosis.culprits, ElementsAre(1));
  EXPECT_EQ(diagnosis.number, 4u);
  EXPECT_THAT(diagnosis.sentences, ElementsAre("rank 1 called all_reduce int32 x 100 where ranks 0, 2, 3 called "
                                               "all_reduce float32 x 100 (#4)"));
}

TEST(Diagnose, NamesTheRankThatWasLostAndByWhom) {
  std::vector<Recording> survivors;
  for (Rank rank = 0; rank < 3; ++rank) {
    survivors.push_back(rank_at(rank, 4, 8, CallState::Failed));
    survivors.back().error = "peer lost: connection reset";
    survivors.back().error_kind = "peer lost";
    survivors.back().failed_rank = 3;
  }
  const Diagnosis diagnosis = only(survivors);
  EXPECT_EQ(diagnosis.finding, Finding::PeerLost);
  EXPECT_THAT(diagnosis.culprits, ElementsAre(3));
  EXPECT_EQ(diagnosis.number, 8u);
  EXPECT_EQ(
      diagnosis.sentences.front(),
      "rank 3 was lost during all_reduce #8 float32 x 1024: named by ranks 0, 1, 2 (peer lost: connection reset)");
}

TEST(Diagnose, ReportsAnErrorThatNamesNobody) {
  Recording recording = rank_at(0, 1, 2, CallState::Failed);
  recording.error = "timeout: no byte moved for 30000 ms";
  recording.error_kind = "timeout";
  const Diagnosis diagnosis = only({recording});
  EXPECT_EQ(diagnosis.finding, Finding::Failed);
  EXPECT_THAT(diagnosis.culprits, IsEmpty());
  EXPECT_EQ(diagnosis.sentences.front(), "rank 0: timeout: no byte moved for 30000 ms");
  recording.error = "rank 0 (host h, pid 1): timeout: no byte moved for 30000 ms";
  EXPECT_EQ(only({recording}).sentences.front(), recording.error);
}

TEST(Diagnose, IsHealthyWhenAllAreAtTheSameCall) {
  const Diagnosis diagnosis = only({rank_at(0, 2, 5, CallState::Done), rank_at(1, 2, 5, CallState::Done)});
  EXPECT_EQ(diagnosis.finding, Finding::Healthy);
  EXPECT_EQ(diagnosis.sentences.front(), "all ranks have finished all_reduce #5 float32 x 1024; none is behind");
  EXPECT_EQ(only({rank_at(0, 1, 0, CallState::Done)}).finding, Finding::Healthy);
}

TEST(Diagnose, NamesRanksWithoutARecording) {
  const Diagnosis diagnosis = only({rank_at(0, 4, 5, CallState::Done), rank_at(2, 4, 5, CallState::Done)});
  EXPECT_EQ(diagnosis.finding, Finding::Incomplete);
  EXPECT_THAT(diagnosis.culprits, ElementsAre(1, 3));
  EXPECT_EQ(diagnosis.sentences.back(), "no recording of ranks 1, 3");
}

TEST(Diagnose, IsQuickWhateverAFileClaims) {
  const Diagnosis diagnosis = only({rank_at(0, 2'000'000'000, 5, CallState::Done)});
  EXPECT_EQ(diagnosis.finding, Finding::Incomplete);
  EXPECT_THAT(diagnosis.sentences.back(), HasSubstr("and 1999999983 more"));
}

TEST(Diagnose, KeepsCommunicatorsApartAndTakesTheLatestOfARank) {
  Recording other = rank_at(0, 1, 9, CallState::Done);
  other.communicator = 2;
  Recording old = rank_at(1, 2, 4, CallState::Done);
  old.taken_ns = -5;
  const std::vector<Diagnosis> diagnoses =
      diagnose({rank_at(0, 2, 5, CallState::Done), other, old, rank_at(1, 2, 5, CallState::Done)});
  ASSERT_EQ(diagnoses.size(), 2u);
  EXPECT_EQ(diagnoses[0].finding, Finding::Healthy);
  EXPECT_EQ(diagnoses[1].communicator, 2u);
}

// Adds a message of a rank, in an exchange of its own.
void add_message(Recording& recording, CallState state, bool sent, Rank peer, std::uint64_t number,
                 std::uint64_t count = 100) {
  CallRecord exchange;
  exchange.collective = Collective::Exchange;
  exchange.number = recording.exchanges.size() + 1;
  exchange.state = state;
  recording.exchanges.push_back(exchange);
  recording.messages.push_back({exchange.number, sent, peer, DataType::Float32, count, number});
}

TEST(DiagnoseMessages, NamesTheSendThatARecvWaitsFor) {
  std::vector<Recording> ranks{rank_at(0, 3, 0, CallState::Done), rank_at(1, 3, 1, CallState::Running),
                               rank_at(2, 3, 1, CallState::Running)};
  add_message(ranks[0], CallState::Done, false, 1, 1);
  add_message(ranks[0], CallState::Running, false, 1, 2);
  add_message(ranks[1], CallState::Done, true, 0, 1);
  const Diagnosis diagnosis = only(ranks);
  EXPECT_EQ(diagnosis.finding, Finding::Behind);
  EXPECT_THAT(diagnosis.culprits, ElementsAre(1)) << "rank 0 is behind because its message waits";
  EXPECT_THAT(diagnosis.sentences,
              ElementsAre("rank 0 has not entered any call and never entered #1 all_reduce float32 x 1024; "
                          "ranks 1, 2 wait in it",
                          "rank 0 waits in recv #2 from rank 1 float32 x 100: rank 1 never entered its send #2 and is "
                          "in all_reduce #1 float32 x 1024"));
}

TEST(DiagnoseMessages, NamesTheRecvThatASendWaitsFor) {
  std::vector<Recording> ranks{rank_at(0, 2, 0, CallState::Done), rank_at(1, 2, 0, CallState::Done)};
  add_message(ranks[1], CallState::Entered, true, 0, 1, 7);
  const Diagnosis diagnosis = only(ranks);
  EXPECT_EQ(diagnosis.finding, Finding::Behind);
  EXPECT_EQ(diagnosis.number, 0u);
  EXPECT_THAT(diagnosis.culprits, ElementsAre(0));
  EXPECT_THAT(diagnosis.sentences,
              ElementsAre("rank 1 waits in send #1 to rank 0 float32 x 7: rank 0 never entered its "
                          "recv #1 and is in no call"));
}

TEST(DiagnoseMessages, SaysWhoWaitsForEachOther) {
  std::vector<Recording> ranks;
  for (Rank rank = 0; rank < 4; ++rank) ranks.push_back(rank_at(rank, 4, 0, CallState::Done));
  for (Rank rank = 0; rank < 3; ++rank)
    add_message(ranks[static_cast<std::size_t>(rank)], CallState::Running, true, (rank + 1) % 3, 1);
  // Rank 3 waits for a message, but no rank waits for rank 3.
  add_message(ranks[3], CallState::Running, false, 0, 1);
  const Diagnosis diagnosis = only(ranks);
  EXPECT_EQ(diagnosis.finding, Finding::Behind);
  EXPECT_THAT(diagnosis.culprits, ElementsAre(0, 1, 2));
  EXPECT_EQ(diagnosis.sentences.front(),
            "rank 0 waits in send #1 to rank 1 float32 x 100: rank 1 never entered its recv #1 and waits for a message "
            "itself");
  EXPECT_EQ(diagnosis.sentences.back(),
            "ranks 0, 1, 2 wait for each other: sends and receives that cross belong in one Group");
}

TEST(DiagnoseMessages, TellsThoseWhoWaitForEachOtherFromThoseTheyAlsoWaitFor) {
  std::vector<Recording> ranks;
  for (Rank rank = 0; rank < 4; ++rank) ranks.push_back(rank_at(rank, 4, 0, CallState::Done));
  add_message(ranks[0], CallState::Running, false, 1, 1);
  add_message(ranks[1], CallState::Running, false, 0, 1);
  add_message(ranks[1], CallState::Running, false, 2, 1);
  add_message(ranks[2], CallState::Running, false, 3, 1);
  const Diagnosis diagnosis = only(ranks);
  EXPECT_EQ(diagnosis.sentences.back(),
            "ranks 0, 1 wait for each other: sends and receives that cross belong in one Group");
  EXPECT_THAT(diagnosis.culprits, ElementsAre(0, 1, 3)) << "rank 2 waits for 3, who waits for nobody";
}

TEST(DiagnoseMessages, BlamesTheEndOfAChain) {
  std::vector<Recording> ranks;
  for (Rank rank = 0; rank < 3; ++rank) ranks.push_back(rank_at(rank, 3, 0, CallState::Done));
  add_message(ranks[0], CallState::Running, false, 1, 1);
  add_message(ranks[1], CallState::Running, false, 2, 1);
  const Diagnosis diagnosis = only(ranks);
  EXPECT_THAT(diagnosis.culprits, ElementsAre(2));
  EXPECT_THAT(diagnosis.sentences.back(), HasSubstr("rank 2 never entered its send #1 and is in no call"));
}

TEST(DiagnoseMessages, SaysWhatDiffers) {
  std::vector<Recording> ranks{rank_at(0, 2, 0, CallState::Done), rank_at(1, 2, 0, CallState::Done)};
  add_message(ranks[0], CallState::Running, true, 1, 1, 100);
  add_message(ranks[1], CallState::Running, false, 0, 1, 200);
  const Diagnosis diagnosis = only(ranks);
  EXPECT_EQ(diagnosis.finding, Finding::Mismatch);
  EXPECT_THAT(diagnosis.culprits, ElementsAre(0, 1));
  EXPECT_THAT(diagnosis.sentences, ElementsAre("rank 0 called send #1 to rank 1 float32 x 100 where rank 1 called recv "
                                               "#1 from rank 0 float32 x 200"));
}

TEST(DiagnoseMessages, ClaimsOnlyWhatTheRecordingsProve) {
  std::vector<Recording> ranks{rank_at(0, 2, 0, CallState::Done), rank_at(1, 2, 0, CallState::Done)};
  add_message(ranks[0], CallState::Running, false, 1, 1);
  EXPECT_EQ(only({ranks[0]}).finding, Finding::Incomplete) << "nothing is known of rank 1";
  Recording both_in = ranks[1];
  add_message(both_in, CallState::Running, true, 0, 1);
  EXPECT_EQ(only({ranks[0], both_in}).finding, Finding::Healthy);
  Recording without_messages = both_in;
  without_messages.messages.clear();
  EXPECT_EQ(only({ranks[0], without_messages}).finding, Finding::Healthy);
  Recording long_list = ranks[1];
  for (std::size_t i = 0; i < kRecordedMessages; ++i) add_message(long_list, CallState::Done, true, 1, i + 1);
  EXPECT_EQ(only({ranks[0], long_list}).finding, Finding::Healthy) << "older ones are not held";
  Recording just_now = ranks[0];
  just_now.taken_ns -= 1;
  EXPECT_EQ(only({just_now, ranks[1]}).finding, Finding::Healthy) << "it waits less than 100 ms";
  just_now.error = "aborted";
  EXPECT_EQ(only({just_now, ranks[1]}).finding, Finding::Behind);
  EXPECT_EQ(only({ranks[1], ranks[1]}).sentences.front(), "no rank has entered a call");
}

TEST(DiagnoseMessages, CutsALongList) {
  std::vector<Recording> ranks{rank_at(0, 2, 0, CallState::Done), rank_at(1, 2, 0, CallState::Done)};
  for (std::uint64_t number = 1; number <= 20; ++number) add_message(ranks[0], CallState::Entered, true, 1, number);
  const Diagnosis diagnosis = only(ranks);
  EXPECT_EQ(diagnosis.sentences.size(), 17u);
  EXPECT_EQ(diagnosis.sentences.back(), "and 4 more messages like these");
}

TEST(Diagnose, SaysNothingOfNothing) { EXPECT_THAT(diagnose({}), IsEmpty()); }

}  // namespace
}  // namespace wreath
