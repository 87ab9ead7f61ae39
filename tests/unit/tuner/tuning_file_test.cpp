// The file of `wreath tune` is written whole and read back equal. Any other text is refused with the reason.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/surroundings.hpp"
#include "wreath/tuning.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Tuning some_tuning() {
  Tuning tuning = empty_tuning();
  tuning.flag_ns = 140.5;
  tuning.limits = {{Collective::Broadcast, 4, "tcp", 64, 12.5}};
  tuning.times = {{Collective::AllReduce, 2, "", 8, "one_shot", 0, 0.25},
                  {Collective::AllGather, 4, "verbs", 1 << 20, "bruck", 65536, 99},
                  {Collective::AllGather, 4, "", 1 << 20, "ring", 65536, 9, true}};
  return tuning;
}

nlohmann::json as_json(const Tuning& tuning) { return nlohmann::json::parse(to_json(tuning)); }

void expect_refused(const std::string& text, const std::string& words) {
  const Result<Tuning> tuning = parse_tuning(text, "there.json");
  ASSERT_FALSE(tuning) << text.substr(0, 200);
  EXPECT_EQ(tuning.error().code, ErrorCode::InvalidArgument);
  EXPECT_THAT(tuning.error().message, StartsWith("there.json: "));
  EXPECT_THAT(tuning.error().message, HasSubstr(words));
}

TEST(TuningFile, IsReadBackAsWritten) {
  const test::Folder folder;
  const std::string path = folder / "new/folder/tuning.json";
  ASSERT_TRUE(write_tuning(some_tuning(), path));
  const Tuning read = read_tuning(path).value();
  EXPECT_EQ(to_json(read), to_json(some_tuning()));
  EXPECT_TRUE(check_origin(read, path));
  EXPECT_EQ(read.times.at(1).algorithm, "bruck");
  EXPECT_EQ(read.times.at(1).wire, "verbs");
  EXPECT_EQ(read.times.at(0).wire, "");
  EXPECT_EQ(read.limits.at(0).time_us, 12.5);
  EXPECT_FALSE(read.times.at(1).device);
  EXPECT_TRUE(read.times.at(2).device);
  // A second write leaves no other file beside it, and replaces the content.
  ASSERT_TRUE(write_tuning(empty_tuning(), path));
  EXPECT_TRUE(read_tuning(path).value().times.empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "new/folder"), {}), 1);
}

// Files of versions before 0.9 also hold times of loops that stood beside the steps.
TEST(TuningFile, LeavesOutTimesOfLoopsThatNothingChooses) {
  nlohmann::json before = as_json(some_tuning());
  before["times"][0]["executor"] = "steps";
  before["times"][1]["executor"] = "straight";
  const Tuning read = parse_tuning(before.dump(), "before.json").value();
  ASSERT_EQ(read.times.size(), some_tuning().times.size() - 1);
  EXPECT_EQ(read.times.at(1).algorithm, some_tuning().times.at(2).algorithm);
  before["times"][1]["executor"] = "crooked";
  expect_refused(before.dump(), "is neither 'straight' nor 'steps'");
}

// They do not tell wires apart. Most machines had the one of streams alone.
TEST(TuningFile, OfBeforeTakesAWireForStreams) {
  nlohmann::json before = as_json(some_tuning());
  before["times"][0]["links"] = "wire";
  EXPECT_EQ(parse_tuning(before.dump(), "before.json").value().times.at(0).wire, "tcp");
  before["times"][0]["links"] = "shm";
  expect_refused(before.dump(), "links");
}

TEST(TuningFile, IsWrittenWhereALinkLeadsAndToWhatIsNoFile) {
  const test::Folder folder;
  std::filesystem::create_symlink(folder / "there.json", folder / "link");
  std::ofstream(folder / "there.json") << "text";
  ASSERT_TRUE(write_tuning(some_tuning(), folder / "link"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(to_json(read_tuning(folder / "there.json").value()), to_json(some_tuning()));
  const int device = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (device < 0 || ::grantpt(device) != 0 || ::unlockpt(device) != 0)
    GTEST_SKIP() << "no terminal: run it where /dev/pts is mounted";
  const std::string terminal = ::ptsname(device);
  EXPECT_TRUE(write_tuning(empty_tuning(), terminal));
  EXPECT_TRUE(std::filesystem::is_character_file(terminal));
  ::close(device);
}

TEST(TuningFile, SaysWhereItCannotBeWritten) {
  const test::Folder folder;
  std::ofstream(folder / "file") << "text";
  const Status written = write_tuning(some_tuning(), folder / "file/tuning.json");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr(folder / "file"));
  EXPECT_EQ(read_tuning(folder / "missing").error().code, ErrorCode::System);
  EXPECT_EQ(read_tuning(folder.path()).error().code, ErrorCode::InvalidArgument);  // a folder
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  // The read must not wait for a writer.
  EXPECT_FALSE(read_tuning(folder / "fifo"));
}

TEST(TuningFile, CutShortIsRefused) {
  const std::string whole = to_json(some_tuning());
  for (std::size_t size = 0; size + 2 < whole.size(); size += 7) expect_refused(whole.substr(0, size), "not JSON");
}

// Every member in turn has a value of the wrong type or out of range, or is missing.
TEST(TuningFile, WrongMembersAreNamed) {
  const std::vector<std::pair<std::string, nlohmann::json>> wrong = {{"/format", "wreath-recording"},
                                                                     {"/format", 3},
                                                                     {"/version", 2},
                                                                     {"/version", "1"},
                                                                     {"/machine", nullptr},
                                                                     {"/machine", std::string(5000, 'x')},
                                                                     {"/library", 7},
                                                                     {"/flag_ns", -1},
                                                                     {"/flag_ns", "fast"},
                                                                     {"/times", 3},
                                                                     {"/times/0", "one"},
                                                                     {"/times/0/collective", "all_produce"},
                                                                     {"/times/0/ranks", 0},
                                                                     {"/times/0/ranks", -2},
                                                                     {"/times/0/ranks", 1e9},
                                                                     {"/times/0/links", "pigeon"},
                                                                     {"/times/0/bytes", -8},
                                                                     {"/times/0/bytes", 0},
                                                                     {"/times/0/bytes", 1.5},
                                                                     {"/times/0/time_us", 0},
                                                                     {"/times/0/time_us", -3},
                                                                     {"/times/0/time_us", 1e300},
                                                                     {"/times/0/time_us", {}},
                                                                     {"/times/0/algorithm", "bruck"},
                                                                     {"/times/0/algorithm", "nothing"},
                                                                     {"/times/0/tile_bytes", -1},
                                                                     {"/times/0/tile_bytes", 1ULL << 40},
                                                                     {"/limits/0/time_us", "soon"},
                                                                     {"/limits/0/ranks", true},
                                                                     {"/limits", nlohmann::json::object()}};
  for (const auto& [place, value] : wrong) {
    nlohmann::json object = as_json(some_tuning());
    object[nlohmann::json::json_pointer(place)] = value;
    expect_refused(object.dump(),
                   place.substr(place.rfind('/') + 1) == "0" ? "times" : place.substr(place.rfind('/') + 1));
  }
  for (const std::string key : {"format", "version", "machine", "library", "flag_ns", "times", "limits"}) {
    nlohmann::json object = as_json(some_tuning());
    object.erase(key);
    expect_refused(object.dump(), key);
  }
}

TEST(TuningFile, HugeTextsAreRefused) {
  expect_refused(std::string((4 << 20) + 1, ' '), "longer than");
  expect_refused(std::string(1 << 20, '['), "not JSON");
  nlohmann::json object = as_json(some_tuning());
  for (int i = 0; i < 3'000; ++i) object["limits"].push_back(object["limits"][0]);
  expect_refused(object.dump(), "limits");
  for (const std::string text : {"", "null", "3", "[]", "\"text\"", "{}"})
    EXPECT_FALSE(parse_tuning(text, "x")) << text;
}

TEST(TuningFile, OfAnotherMachineOrVersionIsTold) {
  Tuning elsewhere = some_tuning();
  elsewhere.machine = "Abacus, 3 processors";
  EXPECT_THAT(check_origin(elsewhere, "there.json").error().message,
              testing::AllOf(HasSubstr("there.json"), HasSubstr("another machine"), HasSubstr("Abacus"),
                             HasSubstr(machine_name())));
  Tuning older = some_tuning();
  older.library = "0.0.1";
  EXPECT_THAT(check_origin(older, "there.json").error().message,
              testing::AllOf(HasSubstr("another version"), HasSubstr("0.0.1")));
}

TEST(TuningFile, LiesInTheUsersCache) {
  {
    const test::Environment cache({{"XDG_CACHE_HOME", "/somewhere/cache"}, {"HOME", "/nobody"}});
    EXPECT_THAT(default_tuning_path(), testing::MatchesRegex("/somewhere/cache/wreath/tuning-[0-9a-f]+.json"));
  }
  const test::Environment home({{"XDG_CACHE_HOME", "relative"}, {"HOME", "/nobody"}});
  EXPECT_THAT(default_tuning_path(), StartsWith("/nobody/.cache/wreath/tuning-"));
}

}  // namespace
}  // namespace wreath
