// Readers check what they find in a recorder's memory, because another process may have written anything into it.
#include "src/recorder/layout.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>

namespace wreath {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kPlace = 1;  // of the one record and the one message

// Returns the memory of rank 1 of 3 with one call and one message.
std::unique_ptr<RecorderMemory> good_memory() {
  auto memory = std::make_unique<RecorderMemory>();
  memory->header.magic = kRecorderMagic;
  memory->header.version = kRecorderVersion;
  memory->header.calls = kRecordedCalls;
  memory->header.rank = 1;
  memory->header.ranks = 3;
  RecordWords& call = memory->calls.records[kPlace];
  call.number = kPlace;
  call.count = 7;
  MessageWords& message = memory->messages.messages[kPlace];
  message.peer = 2;
  message.place = kPlace;
  message.exchange = 4;
  message.number = 5;
  message.count = 6;
  message.kind = static_cast<std::uint64_t>(DataType::Int32) | kMessageSent;
  return memory;
}

void set_tail(RecorderMemory& memory, std::size_t byte, int value) {
  auto* bytes = reinterpret_cast<unsigned char*>(memory.calls.records[kPlace].tail);
  bytes[byte] = static_cast<unsigned char>(value);
}

using Change = std::function<void(RecorderMemory&)>;

Result<Recording> view_of(const Change& change) {
  const auto memory = good_memory();
  change(*memory);
  return view(*memory, "test");
}

TEST(RecorderMemory, GivesWhatIsInIt) {
  const Recording recording = view_of([](RecorderMemory&) {}).value();
  EXPECT_EQ(recording.rank, 1);
  EXPECT_EQ(recording.ranks, 3);
  ASSERT_EQ(recording.calls.size(), 1u);
  EXPECT_EQ(describe(recording.calls[0]), "all_reduce #1 int8 x 7");
  ASSERT_EQ(recording.messages.size(), 1u);
  EXPECT_EQ(describe(recording.messages[0]), "send #5 to rank 2 int32 x 6");
  EXPECT_EQ(recording.messages[0].exchange, 4u);
}

TEST(RecorderMemory, IsRefusedWithAForeignHeader) {
  const auto refusal = [](const Change& change) {
    const Result<Recording> recording = view_of(change);
    return recording ? std::string("taken") : recording.error().message;
  };
  EXPECT_THAT(refusal([](RecorderMemory& memory) { memory.header.magic ^= 1; }), HasSubstr("does not start"));
  EXPECT_THAT(refusal([](RecorderMemory& memory) { ++memory.header.version; }), HasSubstr("version"));
  EXPECT_THAT(refusal([](RecorderMemory& memory) { --memory.header.calls; }), HasSubstr("255 calls"));
  EXPECT_THAT(refusal([](RecorderMemory& memory) { memory.header.rank = 3; }), HasSubstr("rank 3 of 3"));
  EXPECT_THAT(refusal([](RecorderMemory& memory) { memory.header.rank = -1; }), HasSubstr("rank -1 of 3"));
  EXPECT_THAT(refusal([](RecorderMemory& memory) { memory.header.ranks = 0; }), HasSubstr("of 0"));
}

TEST(RecorderMemory, HidesCallsThatCannotBe) {
  const Change changes[] = {
      [](RecorderMemory& memory) { memory.calls.records[kPlace].version = 1; },
      [](RecorderMemory& memory) { memory.calls.records[kPlace].number = 0; },
      [](RecorderMemory& memory) { memory.calls.records[kPlace].number = 2; },
      [](RecorderMemory& memory) { set_tail(memory, 0, static_cast<int>(all_collectives().size())); },
      [](RecorderMemory& memory) { set_tail(memory, 1, static_cast<int>(all_dtypes().size())); },
      [](RecorderMemory& memory) { set_tail(memory, 2, static_cast<int>(all_ops().size())); },
      [](RecorderMemory& memory) { set_tail(memory, 3, static_cast<int>(CallState::Failed) + 1); },
  };
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    EXPECT_TRUE(view_of(changes[i]).value().calls.empty()) << "change " << i;
  }
}

TEST(RecorderMemory, HidesMessagesThatCannotBe) {
  const Change changes[] = {
      [](RecorderMemory& memory) { memory.messages.messages[kPlace].version = 1; },
      [](RecorderMemory& memory) { memory.messages.messages[kPlace].place = 0; },
      [](RecorderMemory& memory) { memory.messages.messages[kPlace].place = 2; },
      [](RecorderMemory& memory) { memory.messages.messages[kPlace].peer = -1; },
      [](RecorderMemory& memory) { memory.messages.messages[kPlace].peer = 3; },
      [](RecorderMemory& memory) { memory.messages.messages[kPlace].exchange = 0; },
      [](RecorderMemory& memory) { memory.messages.messages[kPlace].number = 0; },
      [](RecorderMemory& memory) { memory.messages.messages[kPlace].kind = all_dtypes().size(); },
  };
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    EXPECT_TRUE(view_of(changes[i]).value().messages.empty()) << "change " << i;
  }
}

}  // namespace
}  // namespace wreath
