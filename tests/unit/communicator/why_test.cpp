// Tests what the recorders of living ranks say together about their sends and receives.
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "wreath/recording.hpp"
#include "wreath/wreath.hpp"

namespace wreath {
namespace {

using ::testing::ElementsAre;

Diagnosis diagnosis_of_this_process() {
  const std::vector<Diagnosis> diagnoses = diagnose(read_process(::getpid()).value());
  EXPECT_EQ(diagnoses.size(), 1u);
  return diagnoses.front();
}

TEST(Why, SaysWhichSendAReceiveWaitsFor) {
  auto ranks = Communicator::create_local(2).value();
  std::vector<float> sent(300, 5.0f);
  std::vector<float> received(300);
  Work first = ranks[0].recv_async(received.data(), 100, DataType::Float32, 1).value();
  ranks[1].send(sent.data(), 100, DataType::Float32, 0).value();
  first.wait().value();
  Work second = ranks[0].recv_async(received.data(), 300, DataType::Float32, 1).value();
  // The command `wreath why` calls a rank behind after 100 ms.
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  const Diagnosis waits = diagnosis_of_this_process();
  EXPECT_EQ(waits.finding, Finding::Behind);
  EXPECT_THAT(waits.culprits, ElementsAre(1));
  EXPECT_THAT(waits.sentences,
              ElementsAre("rank 0 waits in recv #2 from rank 1 float32 x 300: rank 1 never entered its "
                          "send #2 and is in no call"));
  ranks[1].send(sent.data(), 300, DataType::Float32, 0).value();
  second.wait().value();
  const Diagnosis over = diagnosis_of_this_process();
  EXPECT_EQ(over.finding, Finding::Healthy);
  EXPECT_THAT(over.sentences, ElementsAre("no rank is behind in sends and receives"));
  EXPECT_EQ(received, sent);
}

TEST(Why, KnowsTheMessagesOfAGroup) {
  auto ranks = Communicator::create_local(3).value();
  std::vector<std::int32_t> values(30, 1);
  Group group;
  ranks[0].send(values.data(), 10, DataType::Int32, 1).value();
  ranks[0].recv(values.data() + 10, 10, DataType::Int32, 2).value();
  Work work = group.launch().value();
  Work matched = ranks[1].recv_async(values.data() + 20, 10, DataType::Int32, 0).value();
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  const Diagnosis waits = diagnosis_of_this_process();
  EXPECT_THAT(waits.sentences, ElementsAre("rank 0 waits in recv #1 from rank 2 int32 x 10: rank 2 never entered its "
                                           "send #1 and is in no call"));
  ranks[2].send(values.data(), 10, DataType::Int32, 0).value();
  work.wait().value();
  matched.wait().value();
}

}  // namespace
}  // namespace wreath
