// Checkpoints of one mesh are loaded on another: the bytes on disk and the bits in memory are equal, and all ranks get
// each error.
#include "training/checkpoint/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/training/checkpoint/model.hpp"
#include "training/checkpoint/file_set.hpp"
#include "training/checkpoint/folder.hpp"

namespace wreath::training {
namespace {

using test::Division;
using test::RankState;
using test::state_of;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using wreath::test::Folder;
using wreath::test::LocalRanks;

CheckpointOptions small_files() {
  CheckpointOptions options;
  options.file_bytes = 700;
  options.writers = 2;
  options.documents = {{"config.json", "{}"}};
  return options;
}

// Runs `body` on all ranks and returns the messages of its errors, by rank.
std::vector<std::string> on_ranks(int ranks, const std::function<Status(Communicator&)>& body) {
  LocalRanks local(ranks, {});
  std::vector<std::string> messages(static_cast<std::size_t>(ranks));
  local.run([&](Communicator& world) {
    const Status status = body(world);
    if (!status) messages[static_cast<std::size_t>(world.rank())] = status.error().message;
  });
  return messages;
}

Status save(Communicator& world, const std::string& folder, const Division& division, std::int64_t step,
            const CheckpointOptions& options = small_files()) {
  RankState rank(division, world.rank());
  rank.fill(step);
  MemoryAccounting memory;
  auto checkpointer = Checkpointer::create(world, folder, rank.shard(), memory, options);
  if (!checkpointer) return checkpointer.error();
  WREATH_TRY((*checkpointer)->save(state_of(step), rank.shard()));
  return (*checkpointer)->wait();
}

Status load(Communicator& world, const std::string& checkpoint, const Division& division, std::int64_t step) {
  RankState rank(division, world.rank());
  rank.spoil();
  const Result<TrainingState> state = load_checkpoint(world, checkpoint, rank.shard());
  if (!state) return state.error();
  EXPECT_EQ(*state, state_of(step));
  EXPECT_EQ(rank.difference(step), "") << "rank " << world.rank();
  return {};
}

void save_on(const Division& division, const std::string& folder, std::int64_t step) {
  const auto messages = on_ranks(division.ranks(), [&](auto& world) { return save(world, folder, division, step); });
  ASSERT_THAT(messages, Each("")) << division.name();
}

// Returns the names and bytes of the files in a folder.
std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

const std::vector<Division>& divisions() {
  static const std::vector<Division> all = {{1, 1, 1, false}, {2, 1, 1, false}, {2, 1, 1, true},  {4, 1, 1, true},
                                            {1, 1, 2, false}, {1, 1, 3, false}, {1, 2, 1, false}, {1, 2, 2, false},
                                            {2, 2, 1, true},  {2, 1, 2, true},  {3, 1, 1, true},  {2, 2, 1, false}};
  return all;
}

TEST(Checkpoint, EveryMeshWritesTheSameBytes) {
  const Folder folder;
  save_on(divisions()[0], folder / "alone", 3);
  const auto wanted = files_in(folder / "alone/step-000003");
  EXPECT_EQ(wanted.count("model-00001-of-00005.safetensors"), 1u);
  EXPECT_EQ(wanted.count("optimizer.safetensors.index.json"), 1u);
  EXPECT_EQ(wanted.at("config.json"), "{}");
  for (const Division& division : divisions()) {
    const std::string other = folder / division.name();
    save_on(division, other, 3);
    EXPECT_EQ(names_in(other), std::vector<std::string>{"step-000003"});
    EXPECT_TRUE(files_in(other + "/step-000003") == wanted) << division.name();
  }
}

TEST(Checkpoint, EveryMeshLoadsWhatAnotherSaved) {
  const Folder folder;
  for (const Division& saved : {Division{1, 1, 1, false}, Division{2, 1, 2, true}, Division{2, 2, 1, true}}) {
    save_on(saved, folder.path(), 17);
    for (const Division& loaded : divisions()) {
      const auto messages =
          on_ranks(loaded.ranks(), [&](auto& world) { return load(world, folder / "step-000017", loaded, 17); });
      EXPECT_THAT(messages, Each("")) << saved.name() << " -> " << loaded.name();
    }
  }
}

TEST(Checkpoint, OneProcessNeedsNoCommunicator) {
  const Folder folder;
  Communicator none;
  ASSERT_TRUE(save(none, folder / "new/folder", divisions()[0], 1));
  EXPECT_TRUE(load(none, folder / "new/folder/step-000001", divisions()[0], 1));
}

TEST(Checkpoint, LatestIsTheHighestStepAndAStepCanBeReplaced) {
  const Folder folder;
  Communicator none;
  const Division one;
  EXPECT_EQ(latest_checkpoint(folder / "missing").value(), std::nullopt);
  for (const std::int64_t step : {9, 1000000, 20}) ASSERT_TRUE(save(none, folder.path(), one, step));
  std::filesystem::create_directory(folder / "step-5000");         // not the name of a step
  std::filesystem::create_directory(folder / ".step-2000000-01");  // left by a dead save
  std::ofstream(folder / "step-3000000") << "a file";
  EXPECT_EQ(latest_checkpoint(folder.path()).value(), folder / "step-1000000");
  ASSERT_TRUE(save(none, folder.path(), one, 20));
  EXPECT_TRUE(load(none, folder / "step-000020", one, 20));
  EXPECT_FALSE(std::filesystem::exists(folder / ".step-2000000-01"));
  EXPECT_TRUE(std::filesystem::exists(folder / "step-5000"));
}

TEST(Checkpoint, KeepLeavesTheNewestOfEarlierStepsAndAllOfLaterOnes) {
  const Folder folder;
  Communicator none;
  CheckpointOptions options;
  options.keep = 2;
  for (const std::int64_t step : {1, 2, 9}) ASSERT_TRUE(save(none, folder.path(), Division{}, step));
  ASSERT_TRUE(save(none, folder.path(), Division{}, 5, options));
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"step-000002", "step-000005", "step-000009"}));
}

TEST(Checkpoint, WeightsAloneLoadWithoutTheRest) {
  const Folder folder;
  const Division two{1, 1, 2, false};
  save_on(two, folder.path(), 4);
  const std::string path = folder / "step-000004";
  for (const auto& name : names_in(path)) {
    if (name.starts_with("optimizer") || name.starts_with("training")) std::filesystem::remove(path + "/" + name);
  }
  const auto messages = on_ranks(2, [&](Communicator& world) -> Status {
    RankState rank(two, world.rank());
    rank.fill(4);
    for (const Piece& piece : rank.pieces) std::fill(piece.value.begin(), piece.value.end(), -1.0f);
    LoadOptions options;
    options.weights_only = true;
    const auto state = load_checkpoint(world, path, {rank.pieces, {}}, options);
    if (!state) return state.error();
    EXPECT_EQ(rank.difference(4), "");
    return {};
  });
  EXPECT_THAT(messages, Each(""));
}

TEST(Checkpoint, WeightsTheModelNeedNotKnowAreNamed) {
  const Folder folder;
  const auto header =
      lay_out_safetensors({{"w", TensorType::F32, {2}, 0, 0}, {"h.0.attn.bias", TensorType::F32, {1}, 0, 0}}, {});
  ASSERT_TRUE(SafetensorsWriter::create(folder / "model.safetensors", *header));
  Communicator none;
  Parameter parameter;
  parameter.name = "w";
  parameter.shape = {2};
  std::vector<float> values(2, 1.0f);
  const std::vector<Piece> pieces{{&parameter, 0, values, {}}};
  LoadOptions options{true, {".attn.bias"}};
  ASSERT_TRUE(load_checkpoint(none, folder.path(), {pieces, {}}, options));
  EXPECT_EQ(values, (std::vector<float>{0, 0}));
  options.ignored_endings.clear();
  EXPECT_THAT(load_checkpoint(none, folder.path(), {pieces, {}}, options).error().message,
              HasSubstr("model.safetensors: the model has no tensor \"h.0.attn.bias\""));
}

// The tests below read checkpoints that are damaged.

void change(const std::string& path, const std::function<void(std::string&)>& edit) {
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes = {std::istreambuf_iterator<char>(file), {}};
  }
  edit(bytes);
  std::ofstream(path, std::ios::binary) << bytes;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

struct Damage {
  const char* file;
  std::function<void(std::string&)> edit;
  const char* message;
};

std::vector<Damage> damages() {
  return {
      {"model-00005-of-00005.safetensors", [](auto& bytes) { bytes.pop_back(); }, "cut short"},
      {"model-00005-of-00005.safetensors", [](auto& bytes) { bytes.resize(30); }, "cut short"},
      {"model-00005-of-00005.safetensors", [](auto& bytes) { bytes = "PK\3\4, a file of another program"; },
       "no safetensors file"},
      {"model-00005-of-00005.safetensors", [](auto& bytes) { replace(bytes, "[65,6]", "[6,65]"); },
       "tensor \"wte.weight\" has shape [6, 65], the model's has [65, 6]"},
      {"model-00005-of-00005.safetensors", [](auto& bytes) { replace(bytes, "\"F32\"", "\"I32\""); },
       "tensor \"wte.weight\" is I32, not F32"},
      {"model-00005-of-00005.safetensors", [](auto& bytes) { replace(bytes, "wte.weight", "wtf.weight"); },
       "lacks tensor \"wte.weight\""},
      {"optimizer-00003-of-00010.safetensors", [](auto& bytes) { bytes.pop_back(); }, "cut short"},
      {"model.safetensors.index.json", [](auto& bytes) { bytes.resize(9); }, "not JSON"},
      {"training_state.json", [](auto& bytes) { bytes.resize(20); }, "not JSON"},
      {"training_state.json", [](auto& bytes) { replace(bytes, "\"step\": 8", "\"step\": 8.5"); },
       "step is not a whole number"},
      {"training_state.json", [](auto& bytes) { replace(bytes, "\"step\": 8", "\"step\": -8"); }, "step is negative"},
      {"training_state.json", [](auto& bytes) { replace(bytes, "\"step\": 8", "\"step\": 18446744073709551615"); },
       "step is above"},
      {"training_state.json", [](auto& bytes) { replace(bytes, "\"seed\"", "\"seat\""); }, "seed"},
      {"training_state.json", [](auto& bytes) { replace(bytes, "wreath-checkpoint", "other"); }, "format"},
      {"training_state.json", [](auto& bytes) { replace(bytes, "exp_avg_sq", "momentum"); }, "momentum"},
  };
}

TEST(Checkpoint, EveryRankNamesTheFileThatIsWrong) {
  const Folder folder;
  const Division two{1, 2, 1, false};
  save_on(two, folder.path(), 8);
  const std::string path = folder / "damaged";
  for (const Damage& damage : damages()) {
    std::filesystem::remove_all(path);
    std::filesystem::copy(folder / "step-000008", path);
    change(path + "/" + damage.file, damage.edit);
    const auto messages = on_ranks(2, [&](Communicator& world) -> Status {
      RankState rank(two, world.rank());
      rank.fill(1);
      const auto state = load_checkpoint(world, path, rank.shard());
      EXPECT_EQ(rank.difference(1), "") << "what was there has changed";
      return state ? Status() : Status(state.error());
    });
    EXPECT_THAT(messages, Each(AllOf(HasSubstr(path + "/" + damage.file), HasSubstr(damage.message))));
    EXPECT_EQ(messages[0], messages[1]);
  }
}

TEST(Checkpoint, MissingAndUnknownTensorsAndFilesAreNamed) {
  const Folder folder;
  Communicator none;
  ASSERT_TRUE(save(none, folder.path(), Division{}, 8));
  RankState rank(Division{}, 0);
  const auto refused = [&](const std::vector<Piece>& pieces) {
    const auto state = load_checkpoint(none, folder / "step-000008", {pieces, {}}, {true, {}});
    return state ? "accepted" : state.error().message;
  };
  std::vector<Piece> pieces = rank.pieces;
  pieces.pop_back();
  EXPECT_THAT(refused(pieces), AllOf(HasSubstr("model-0000"), HasSubstr("no tensor \"ln_f.weight\"")));
  Parameter other = *pieces[0].parameter;
  other.name = "other.weight";
  pieces = rank.pieces;
  pieces.push_back({&other, 0, pieces[0].value, {}});
  EXPECT_THAT(refused(pieces), AllOf(HasSubstr("step-000008"), HasSubstr("has tensor \"other.weight\"")));
  std::filesystem::remove(folder / "step-000008/model-00002-of-00005.safetensors");
  EXPECT_THAT(refused(rank.pieces), AllOf(HasSubstr("model-00002-of-00005.safetensors"), HasSubstr("No such file")));
  EXPECT_THAT(load_checkpoint(none, folder / "step-000009", rank.shard()).error().message, HasSubstr("step-000009"));
}

// The tests below make saves that fail.

TEST(Checkpoint, AShardThatIsNoneFailsOnAllRanks) {
  const Folder folder;
  const Division two{2, 1, 1, true};
  const auto creating = [&](const std::function<void(RankState&, Shard&)>& edit) {
    return on_ranks(2, [&](Communicator& world) -> Status {
      RankState rank(two, world.rank());
      Shard shard = rank.shard();
      if (world.rank() == 1) edit(rank, shard);
      MemoryAccounting memory;
      const auto made = Checkpointer::create(world, folder.path(), shard, memory, small_files());
      return made ? Status() : Status(made.error());
    });
  };
  EXPECT_THAT(creating([](RankState&, Shard& shard) { shard.moments.pop_back(); }), Each(HasSubstr("rank 1: ")));
  EXPECT_THAT(creating([](RankState&, Shard& shard) { shard.moments[1].values = {}; }),
              Each(AllOf(HasSubstr("rank 1: "), HasSubstr("exp_avg_sq has 0 elements"))));
  EXPECT_THAT(creating([](RankState& rank, Shard&) { rank.pieces.back().begin += 1; }),
              Each(AllOf(HasSubstr("rank 1: "), HasSubstr("\"ln_f.weight\""))));
  EXPECT_THAT(creating([](RankState& rank, Shard& shard) {
                const std::size_t lost = rank.pieces.front().value.size();
                shard.pieces = shard.pieces.subspan(1);
                for (auto& moment : shard.moments) moment.values = moment.values.subspan(lost);
              }),
              Each(HasSubstr("\"h.0.attn.c_attn.weight\": no rank holds")));
  EXPECT_THAT(creating([](RankState& rank, Shard&) {
                rank.parameters.find("h.0.attn.c_attn.weight")->shape = {18, 6};
              }),
              Each(AllOf(HasSubstr("\"h.0.attn.c_attn.weight\" has shape [6, 18] on rank 0, [18, 6] on rank 1"))));
  EXPECT_THAT(creating([](RankState& rank, Shard&) { rank.pieces.front().value = rank.pieces.front().value.first(1); }),
              Each(HasSubstr("rank 1: ")));
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(Checkpoint, OptionsOutOfRangeAreRefused) {
  const Folder folder;
  Communicator none;
  const auto refused = [&](const std::function<void(CheckpointOptions&)>& edit) {
    CheckpointOptions options;
    edit(options);
    return save(none, folder.path(), Division{}, 1, options).error().message;
  };
  EXPECT_THAT(refused([](auto& options) { options.writers = 0; }), HasSubstr("writers is 0"));
  EXPECT_THAT(refused([](auto& options) { options.keep = -1; }), HasSubstr("keep is -1"));
  EXPECT_THAT(refused([](auto& options) { options.file_bytes = 0; }), HasSubstr("file_bytes is 0"));
  EXPECT_THAT(refused([](auto& options) { options.documents["../x"] = ""; }), HasSubstr("'../x'"));
}

TEST(Checkpoint, AFailedSaveIsToldOnceAndTheNextOneWorks) {
  const Folder folder;
  const Division two{2, 1, 1, true};
  const auto messages = on_ranks(2, [&](Communicator& world) -> Status {
    RankState rank(two, world.rank());
    rank.fill(1);
    MemoryAccounting memory;
    auto checkpointer =
        std::move(Checkpointer::create(world, folder.path(), rank.shard(), memory, small_files())).value();
    WREATH_TRY(checkpointer->save(state_of(1), rank.shard()));
    WREATH_TRY(checkpointer->save(state_of(2 + world.rank()), rank.shard()));  // the ranks disagree
    const Status told = checkpointer->save(state_of(4), rank.shard());
    EXPECT_FALSE(told);
    EXPECT_THAT(told.error().message, AllOf(StartsWith("rank 1: "), HasSubstr("saves step 3, rank 0 step 2")));
    Shard short_shard = rank.shard();
    if (world.rank() == 0) short_shard.moments.clear();
    WREATH_TRY(checkpointer->save(state_of(4), short_shard));
    EXPECT_THAT(checkpointer->wait().error().message, StartsWith("rank 0: "));
    EXPECT_TRUE(checkpointer->wait());
    WREATH_TRY(checkpointer->save(state_of(1000), rank.shard()));
    return checkpointer->wait();
  });
  EXPECT_THAT(messages, Each(""));
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"step-000001", "step-001000"}));
}

TEST(Checkpoint, AFolderThatCannotBeMadeFailsOnAllRanks) {
  const Folder folder;
  std::ofstream(folder / "file") << "in the way";
  const auto messages = on_ranks(2, [&](Communicator& world) -> Status {
    RankState rank({2, 1, 1, true}, world.rank());
    MemoryAccounting memory;
    // This call comes before any step.
    const auto made = Checkpointer::create(world, folder / "file", rank.shard(), memory);
    return made ? Status() : Status(made.error());
  });
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("rank 0: "), HasSubstr(folder / "file"))));
}

// Two jobs save into one folder. Each takes the files of the other for those that a dead save left.
TEST(Checkpoint, TwoJobsInOneFolderAreToldSo) {
  const Folder folder;
  const std::string first = begin_folder(folder.path(), 7).value();
  const std::string second = begin_folder(folder.path(), 8).value();
  const Status lost = publish_folder(folder.path(), first, 7);
  ASSERT_FALSE(lost);
  EXPECT_THAT(lost.error().message, AllOf(HasSubstr(first), HasSubstr("another job"), HasSubstr(folder.path())));
  EXPECT_TRUE(publish_folder(folder.path(), second, 8));
}

// Rank 1 works in another folder, as on a host that does not share the file system.
TEST(Checkpoint, ARankThatDoesNotSeeTheFilesFailsTheSaveOnAllRanks) {
  const Folder folder;
  std::filesystem::create_directory(folder / "elsewhere");
  const Division two{2, 1, 1, true};
  std::atomic<bool> apart{true};
  const auto messages = on_ranks(2, [&](Communicator& world) {
    const std::string own = world.rank() == 0 ? folder.path() : folder / "elsewhere";
    if (::unshare(CLONE_FS) != 0 || ::chdir(own.c_str()) != 0) apart = false;
    world.barrier().value();
    return apart ? save(world, "checkpoints", two, 1) : Status();
  });
  if (!apart)
    GTEST_SKIP() << "threads cannot have folders of their own here: run it where unshare(2) may be called, not in a "
                    "strict sandbox";
  EXPECT_THAT(messages, Each(AllOf(StartsWith("rank 1: "), HasSubstr("file system"))));
  EXPECT_TRUE(names_in(folder / "checkpoints").empty()) << "the save left something";
}

}  // namespace
}  // namespace wreath::training
