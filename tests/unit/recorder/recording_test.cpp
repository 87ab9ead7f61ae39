// Recordings are written whole to files, and are read with bounds.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/recorder/json.hpp"
#include "src/recorder/recorder.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath {
namespace {

using ::testing::HasSubstr;

class RecordingFile : public ::testing::Test {
 protected:
  static FlightRecorder recorder_with_calls(std::uint64_t communicator, Rank rank = 3) {
    FlightRecorder recorder = FlightRecorder::create(rank, 4, communicator).value();
    CallRecord call;
    call.count = 1024;
    const std::uint64_t number = recorder.enter(call);
    recorder.running(number, "ring");
    recorder.done(number);
    call.dtype = DataType::Int32;
    recorder.failed(recorder.enter(call));
    return recorder;
  }
  static std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  const test::Folder temporary_;
  const std::string& folder_ = temporary_.path();
};

TEST_F(RecordingFile, ReadsBackWhatWasDumped) {
  const FlightRecorder recorder = recorder_with_calls(0xabc);
  const std::string path =
      recorder.dump({ErrorCode::PeerLost, "peer lost: connection \"reset\"\n", 1}, folder_).value();
  EXPECT_EQ(path, folder_ + "/wreath-3.json");
  const Recording recording = read_recording(path).value();
  EXPECT_EQ(recording.rank, 3);
  EXPECT_EQ(recording.ranks, 4);
  EXPECT_EQ(recording.pid, getpid());
  EXPECT_EQ(recording.communicator, 0xabcu);
  EXPECT_EQ(recording.error, "peer lost: connection \"reset\"\n");
  EXPECT_EQ(recording.error_kind, "peer lost");
  EXPECT_EQ(recording.failed_rank, 1);
  ASSERT_EQ(recording.calls.size(), 2u);
  EXPECT_EQ(recording.calls[0].algorithm.view(), "ring");
  EXPECT_EQ(recording.calls[0].state, CallState::Done);
  EXPECT_EQ(recording.calls[1].dtype, DataType::Int32);
  EXPECT_EQ(recording.calls[1].state, CallState::Failed);
  EXPECT_EQ(recording.find(2)->count, 1024u);
  EXPECT_EQ(recording.find(3), nullptr);
}

TEST_F(RecordingFile, ShowsCallsThatTheFailureEndedAsFailed) {
  FlightRecorder recorder = FlightRecorder::create(0, 2, 5).value();
  CallRecord call;
  recorder.done(recorder.enter(call));
  recorder.running(recorder.enter(call), "ring");
  recorder.enter(call);
  const Recording recording = read_recording(recorder.dump({ErrorCode::Timeout, "x"}, folder_).value()).value();
  ASSERT_EQ(recording.calls.size(), 3u);
  EXPECT_EQ(recording.calls[0].state, CallState::Done);
  for (std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    EXPECT_EQ(recording.calls[i].state, CallState::Failed);
    EXPECT_GE(recording.calls[i].done_ns, recording.calls[i].entered_ns);
  }
  EXPECT_EQ(recorder.find(3)->state, CallState::Entered) << "the ring is the driver's to write";
}

TEST_F(RecordingFile, IsReadableByAllAndLeavesNothingElseBehind) {
  const mode_t previous = umask(0077);
  const std::string path = recorder_with_calls(1).dump({ErrorCode::Timeout, "x"}, folder_).value();
  umask(previous);
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0644u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()), 1);
}

TEST_F(RecordingFile, ReplacesAnOlderOneButNotASiblings) {
  const FlightRecorder first = recorder_with_calls(1);
  const FlightRecorder second = recorder_with_calls(2);
  EXPECT_EQ(first.dump({ErrorCode::Timeout, "a"}, folder_).value(), folder_ + "/wreath-3.json");
  EXPECT_EQ(first.dump({ErrorCode::Timeout, "b"}, folder_).value(), folder_ + "/wreath-3.json");
  EXPECT_EQ(read_recording(folder_ + "/wreath-3.json")->error, "b");
  EXPECT_EQ(second.dump({ErrorCode::Timeout, "c"}, folder_).value(), folder_ + "/wreath-3-0000000000000002.json");
}

TEST_F(RecordingFile, GoesWhereTheSettingSays) {
  const test::RecordingsFolder recordings;
  Result<std::string> path = recorder_with_calls(1).dump({ErrorCode::Timeout, "x"});
  EXPECT_EQ(path.value(), recordings.folder / "wreath-3.json");
}

TEST_F(RecordingFile, NamesAFolderThatIsNotThere) {
  const Result<std::string> path = recorder_with_calls(1).dump({ErrorCode::Timeout, "x"}, folder_ + "/none");
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, ErrorCode::System);
  EXPECT_THAT(path.error().message, HasSubstr("/none/wreath-3.json"));
}

TEST_F(RecordingFile, SurvivesBeingCutAnywhere) {
  const std::string text = to_json(recorder_with_calls(1).snapshot());
  ASSERT_TRUE(parse_recording(text, "whole"));
  for (std::size_t size = 0; size + 2 < text.size(); ++size) {
    const Result<Recording> recording = parse_recording(std::string_view(text).substr(0, size), "cut");
    ASSERT_FALSE(recording) << size;
    ASSERT_EQ(recording.error().code, ErrorCode::InvalidArgument);
  }
}

TEST_F(RecordingFile, SurvivesAnyByteChanged) {
  const std::string text = to_json(recorder_with_calls(1).snapshot());
  for (std::size_t place = 0; place < text.size(); ++place) {
    for (const char other : {'\0', '9', '"', '-', '}', static_cast<char>(0xff)}) {
      std::string changed = text;
      changed[place] = other;
      const Result<Recording> recording = parse_recording(changed, "changed");
      if (recording) {
        ASSERT_LE(recording->calls.size(), kRecordedCalls);
      }
    }
  }
}

struct Hostile {
  const char* name;
  std::string text;
  std::string complaint;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

TEST_F(RecordingFile, SaysWhatIsWrongWithAForeignFile) {
  const std::string good = to_json(recorder_with_calls(1).snapshot());
  const std::vector<Hostile> cases = {
      {"empty", "", "not JSON"},
      {"text", "hello", "not JSON"},
      {"list", "[1, 2]", "not a JSON object"},
      {"object", "{}", "\"format\" is missing"},
      {"deep", std::string(200'000, '['), "not JSON"},
      {"deep closed", std::string(200'000, '[') + std::string(200'000, ']'), "not a JSON object"},
      {"long", std::string(2 << 20, ' '), "longer than"},
      {"format", replaced(good, "wreath-recording", "other"), "\"format\""},
      {"version", replaced(good, "\"version\": 1", "\"version\": 2"), "\"version\""},
      {"rank out of ranks", replaced(good, "\"rank\": 3", "\"rank\": 4"), "\"rank\""},
      {"rank text", replaced(good, "\"rank\": 3", "\"rank\": \"3\""), "\"rank\""},
      {"rank fraction", replaced(good, "\"rank\": 3", "\"rank\": 3.5"), "\"rank\""},
      {"huge pid", replaced(good, "\"pid\": ", "\"pid\": 99999999999999"), "\"pid\""},
      {"dtype", replaced(good, "float32", "float33"), "float33"},
      {"state", replaced(good, "\"done\"", "\"gone\""), "gone"},
      {"count", replaced(good, "\"count\": 1024", "\"count\": 18446744073709551615"), "\"count\""},
      {"negative count", replaced(good, "\"count\": 1024", "\"count\": -1"), "\"count\""},
      {"order", replaced(good, "\"number\": 2", "\"number\": 1"), "order"},
      {"communicator", replaced(good, "0000000000000001", "zz"), "hexadecimal"},
  };
  for (const Hostile& hostile : cases) {
    const Result<Recording> recording = parse_recording(hostile.text, "FILE");
    ASSERT_FALSE(recording) << hostile.name;
    EXPECT_THAT(recording.error().message, HasSubstr("FILE: ")) << hostile.name;
    EXPECT_THAT(recording.error().message, HasSubstr(hostile.complaint)) << hostile.name;
  }
}

TEST_F(RecordingFile, HoldsTheMessagesOfExchanges) {
  FlightRecorder recorder = FlightRecorder::create(1, 2, 5).value();
  CallRecord exchange;
  exchange.collective = Collective::Exchange;
  const std::uint64_t key = recorder.enter(exchange);
  recorder.message(key, {0, true, 0, DataType::Int8, 12, 1});
  recorder.message(key, {0, false, 0, DataType::Float64, 34, 9});
  const std::string good = to_json(recorder.snapshot());
  const Recording read = parse_recording(good, "FILE").value();
  ASSERT_EQ(read.messages.size(), 2u);
  EXPECT_EQ(describe(read.messages[0]), "send #1 to rank 0 int8 x 12");
  EXPECT_EQ(describe(read.messages[1]), "recv #9 from rank 0 float64 x 34");
  EXPECT_EQ(read.messages[1].exchange, 1u);
  const auto complaint = [&](const std::string& from, const std::string& to) {
    return parse_recording(replaced(good, from, to), "FILE").error().message;
  };
  EXPECT_THAT(complaint("\"send\"", "\"sent\""), HasSubstr("\"messages\" entry 0: \"direction\" is neither"));
  EXPECT_THAT(complaint("\"peer\": 0", "\"peer\": 2"), HasSubstr("\"peer\" is not a whole number from 0 to 1"));
  EXPECT_THAT(complaint("\"number\": 9", "\"number\": 0"), HasSubstr("entry 1: \"number\""));
  Recording many = read;
  many.messages.resize(kRecordedMessages + 1, read.messages[0]);
  EXPECT_THAT(parse_recording(to_json(many), "FILE").error().message,
              HasSubstr("\"messages\" is not a list of at most"));
  Recording full = read;
  full.messages.resize(kRecordedMessages, read.messages[0]);
  EXPECT_TRUE(parse_recording(to_json(full), "FILE"));
}

TEST_F(RecordingFile, RefusesMoreCallsThanTheRingHolds) {
  Recording recording = recorder_with_calls(1).snapshot();
  const CallRecord call = recording.calls.front();
  recording.calls.assign(kRecordedCalls + 1, call);
  for (std::size_t i = 0; i < recording.calls.size(); ++i) recording.calls[i].number = i + 1;
  EXPECT_THAT(parse_recording(to_json(recording), "FILE").error().message, HasSubstr("\"calls\""));
  recording.calls.pop_back();
  EXPECT_TRUE(parse_recording(to_json(recording), "FILE"));
}

TEST_F(RecordingFile, DoesNotWaitForAPipeNorReadADevice) {
  const std::string pipe_path = folder_ + "/wreath-0.json";
  ASSERT_EQ(mkfifo(pipe_path.c_str(), 0600), 0);
  EXPECT_THAT(read_recording(pipe_path).error().message, HasSubstr("not a regular file"));
  EXPECT_THAT(read_recording("/dev/zero").error().message, HasSubstr("not a regular file"));
  EXPECT_THAT(read_recording(folder_).error().message, HasSubstr("not a regular file"));
  EXPECT_THAT(read_recording(folder_ + "/none").error().message, HasSubstr("No such file"));
}

TEST_F(RecordingFile, KeepsAnErrorTextThatIsNotUtf8Valid) {
  Recording recording = recorder_with_calls(1).snapshot();
  recording.error = "host \xff\xfe";
  const Result<Recording> read = parse_recording(to_json(recording), "FILE");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(read->error, HasSubstr("host "));
}

}  // namespace
}  // namespace wreath
