// Starts and ends the processes of an elastic job.
#include "tests/training/elastic/members.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "examples/train_gpt/run/elastic.hpp"
#include "examples/train_gpt/run/session.hpp"
#include "training/random/philox.hpp"

namespace wreath::gpt::test {

using testing_support::kSlower;
using testing_support::RankProcess;

namespace {

// Writes letters drawn from a fixed table of transitions, so that there is something to learn.
void write_letters(const std::string& path) {
  constexpr int kLetters = 53;
  const training::RandomStream stream(7, "text");
  std::ofstream file(path);
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    last = stream.uniform(i) < 0.7f ? (last * 5 + 3) % kLetters : stream.below(kLetters, i + 1'000'000);
    file.put(static_cast<char>('A' + last));
  }
}

CommandLine line_of(const std::string& folder, std::int64_t steps) {
  CommandLine line;
  line.train.model.layers = 4;
  line.train.model.heads = 4;
  line.train.model.width = 32;
  line.train.model.context = 24;
  line.train.batch = 12;
  line.train.warmup_steps = 20;
  line.train.decay_steps = 300;
  line.train.steps = steps;
  line.data = folder + "/letters";
  line.csv = folder + "/loss.csv";
  line.jsonl = folder + "/loss.jsonl";
  line.validate_every = 10;
  line.validation_windows = 12;
  line.log_every = 50;
  line.sample = 0;
  return line;
}

std::int64_t steps_in(const std::string& csv) {
  std::ifstream file(csv);
  return std::max<std::int64_t>(
      0, std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n') - 1);
}

// Makes the world's second rank fail in the last call of this step once the first rank has done the step. Its share of
// the call arrives, so that the first rank cannot fail in it.
void tear_step(TrainOptions& options, std::int64_t torn, const std::string& csv) {
  options.before_last_call = [=](std::int64_t step, training::Group& world) {
    if (step != torn || world.rank() != 1) return;
    std::array<double, 2> share{};
    world.all_reduce(std::span<double>(share));
    testing_support::eventually(60'000 * kSlower, [&] { return steps_in(csv) > torn; });
    throw Exception({ErrorCode::PeerLost, "the test ends this rank's last call of a step"});
  };
}

}  // namespace

WREATH_ROLE(trains) {
  CommandLine line = line_of(child.text("folder"), child.number("steps"));
  line.train.mesh = {.dp = static_cast<int>(child.number("dp", 1)), .tp = static_cast<int>(child.number("tp", 1))};
  line.train.zero_stage = static_cast<int>(child.number("zero"));
  if (child.number("diverges") != 0) {
    line.train.learning_rate = 1e30f;
    line.train.clip = 0;
  }
  // A step takes long enough for the test to act during it.
  line.train.stage_sleep_ms = 3;
  if (child.number("checkpoint") != 0) {
    line.checkpoint = child.text("folder") + "/checkpoints";
    line.save_every = 10;
  }
  if (child.number("torn") != 0) tear_step(line.train, child.number("torn"), line.csv);
  const auto job = elastic_job().value();
  const Ending ended = train_elastic(*job, line);
  if (!ended.status) std::fprintf(stderr, "wreath: error: %s\n", ended.status.error().message.c_str());
  return ended.code;
}

Members::Members(const std::string& role, const JobShape& shape, Arguments arguments)
    : role_(role), arguments_(std::move(arguments)) {
  std::filesystem::create_directory(folder());
  write_letters(folder_ / "letters");
  arguments_["folder"] = folder_.path();
  environment_ = {{"WREATH_ELASTIC", folder()},
                  {"WREATH_MIN_RANKS", std::to_string(shape.min_ranks)},
                  {"WREATH_MAX_RANKS", std::to_string(shape.max_ranks)},
                  {"WREATH_RECORDER_DIR", folder_.path()},
                  {"WREATH_JOB", folder_.path()}};
  for (int number = 0; number < shape.members; ++number) {
    start(number, {{"WREATH_RANK", std::to_string(number)}, {"WREATH_RANKS", std::to_string(shape.members)}});
  }
}

void Members::start(int number, Arguments environment) {
  environment.insert(environment_.begin(), environment_.end());
  processes_.emplace(number,
                     RankProcess::start(role_, arguments_, environment, folder_ / ("log-" + std::to_string(number))));
}

void Members::join(int number) { start(number, {{"WREATH_JOIN", std::to_string(number)}}); }

void Members::kill(int number) { (*this)[number].signal(SIGKILL); }

std::map<int, int> Members::wait() {
  std::map<int, int> codes;
  for (auto& [number, process] : processes_) codes[number] = process.join(120'000 * kSlower).value_or(-1);
  return codes;
}

std::string Members::log(int number) const { return processes_.at(number).log(); }

std::string Members::logs() const {
  std::string text;
  for (const auto& [number, process] : processes_) text += "--- " + std::to_string(number) + "\n" + process.log();
  return text;
}

std::int64_t Members::steps_written() const { return steps_in(csv()); }

bool Members::wait_for_steps(std::int64_t steps) const {
  return testing_support::eventually(120'000 * kSlower, [&] { return steps_written() >= steps; });
}

std::vector<std::string> Members::leftovers() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const std::string name = entry.path().filename();
    if (name != "pool" && !name.starts_with("joined-")) names.push_back(name);
  }
  return names;
}

std::vector<double> losses_of(const std::string& csv) {
  std::ifstream file(csv);
  std::vector<double> losses;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::int64_t step = -1;
    double loss = 0;
    char comma = 0;
    fields >> step >> comma >> loss;
    EXPECT_EQ(step, static_cast<std::int64_t>(losses.size())) << "the log repeats or lacks a step";
    losses.push_back(loss);
  }
  return losses;
}

const std::vector<double>& undisturbed(std::int64_t steps) {
  static std::map<std::int64_t, std::vector<double>> known;
  std::vector<double>& losses = known[steps];
  if (!losses.empty()) return losses;
  const wreath::test::Folder folder;
  write_letters(folder / "letters");
  CommandLine line = line_of(folder.path(), steps);
  line.train.mesh = {};
  auto alone = Communicator::create_local(1).value();
  train(std::make_shared<Communicator>(std::move(alone.front())), line).status.value();
  losses = losses_of(line.csv);
  return losses;
}

}  // namespace wreath::gpt::test
