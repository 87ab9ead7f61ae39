// The kernel counts what a rank's process takes of the machine at its peak. The peak falls from stage to stage of ZeRO
// as the formulas say, and agrees with the accounting.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "examples/train_gpt/train/trainer.hpp"
#include "src/base/available_memory.hpp"
#include "tests/support/processes.hpp"

namespace wreath::gpt {
namespace {

using testing_support::Child;
using testing_support::Job;
using testing_support::kSanitized;

constexpr int kRanks = 2;
// The model has many layers of one size. The model's state dominates, and the layers in use are few of them.
constexpr std::int64_t kLayers = 96, kWidth = 192, kContext = 8, kVocabulary = 8;
constexpr double kBlock = 12.0 * kWidth * kWidth + 2.0 * kWidth;
constexpr double kParameters = (kVocabulary + kContext) * kWidth + kLayers * kBlock + kWidth;
constexpr double kTolerance = 0.05;

// Returns a model of few wide layers: the memory that a step takes for a while is as large as the memory that stays.
TrainOptions wide_options() {
  TrainOptions options;
  options.model.layers = 6;
  options.model.width = 512;
  options.model.heads = 8;
  options.model.context = kContext;
  options.mesh.dp = kRanks;
  options.batch = 2 * kRanks;
  options.micro_batches = 2;
  options.zero_stage = 3;
  return options;
}

TrainOptions options_of(int stage) {
  TrainOptions options;
  options.model.layers = kLayers;
  options.model.width = kWidth;
  options.model.heads = 4;
  options.model.context = kContext;
  options.mesh.dp = kRanks;
  options.batch = kRanks;
  options.zero_stage = stage;
  return options;
}

// Returns the highest resident size of this process so far in bytes, or nullopt where the kernel does not say it.
std::optional<std::int64_t> resident_peak() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::int64_t kibibytes = 0;
    if (word == "VmHWM:" && file >> kibibytes) return kibibytes * 1024;
  }
  return std::nullopt;
}

std::string letters() {
  std::string text;
  for (int i = 0; i < 4'000; ++i) text.push_back(static_cast<char>('a' + i * i % 23 % kVocabulary));
  return text;
}

// Reports the process's peak after two steps. The arguments are `stage`, and `copies`: so many additional copies of the
// parameters.
WREATH_ROLE(trains_two_steps) {
  Result<Communicator> world = child.create();
  if (!world) return child.failed(world.error());
  const Text text = Text::from("letters", letters(), kContext).value();
  auto trainer = Trainer::create(std::make_shared<Communicator>(std::move(*world)),
                                 options_of(static_cast<int>(child.number("stage"))), text);
  if (!trainer) return child.failed(trainer.error());
  const auto planted = static_cast<std::size_t>(kParameters) * static_cast<std::size_t>(child.number("copies"));
  const std::vector<float> copies(planted, 1.0f);
  for (int step = 0; step < 2; ++step) (*trainer)->step();
  child.report(fmt::format("peak {}", resident_peak().value_or(0)));
  return 0;
}

// Reports what the process takes beyond what it had before it trained, and what the accounting says that it held.
WREATH_ROLE(trains_wide_layers) {
  Result<Communicator> world = child.create();
  if (!world) return child.failed(world.error());
  const TrainOptions options = wide_options();
  const Text text = Text::from("letters", letters(), options.model.context).value();
  const std::int64_t before = resident_peak().value_or(0);
  auto trainer = Trainer::create(std::make_shared<Communicator>(std::move(*world)), options, text);
  if (!trainer) return child.failed(trainer.error());
  for (int step = 0; step < 3; ++step) (*trainer)->step();
  child.report(
      fmt::format("peak {} {}", resident_peak().value_or(0) - before, (*trainer)->memory().pool().peak_bytes()));
  return 0;
}

// Returns the mean peak of the ranks in bytes.
double peak_of(int stage, int copies = 0) {
  Job job("trains_two_steps", kRanks,
          {{"stage", std::to_string(stage)},
           {"copies", std::to_string(copies)},
           // The cores may be few and busy.
           {"arrival_ms", "120000"},
           {"stall_ms", "120000"},
           {"late_ms", "120000"}});
  if (!job.share_id() || !job.all_report("peak ", 240'000)) {
    ADD_FAILURE() << job.logs();
    return 0;
  }
  double sum = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    sum += std::stod(job[rank].lines().back().substr(5));
    EXPECT_EQ(job[rank].join(30'000), 0);
  }
  return sum / kRanks;
}

// Returns the bytes that the formulas of ZeRO give a rank. Beside its share of what is divided, a rank holds whole
// layers that are in use. It holds the gradients of three: that of the pass, and two that are being sent. It holds the
// weights of two: that in use and the next one.
double formula(int stage) {
  const double whole = 4 * kParameters;
  const double share = whole / kRanks;
  const double weights = stage < 3 ? whole : share + 2 * 4 * kBlock;
  const double gradients = stage < 2 ? whole : share + 3 * 4 * kBlock;
  const double moments = stage < 1 ? 2 * whole : 2 * share;
  return weights + gradients + moments;
}

// Returns why the peak cannot be measured here, or an empty text where it can.
std::string obstacle() {
  if (kSanitized) return "a sanitizer's allocator takes memory of its own";
  if (!resident_peak()) return "/proc/self/status has no VmHWM here";
  const double needed = 1.5 * kRanks * formula(0);
  const auto available = static_cast<double>(available_memory());
  if (available < needed) return fmt::format("{:.1f} GB are available, it takes {:.1f}", available / 1e9, needed / 1e9);
  return {};
}

bool within_tolerance(double fall, double expected) { return std::abs(fall - expected) <= kTolerance * expected; }

// The bytes that the accounting leaves out: buffers of the communicators, tables and code that is used.
constexpr double kUncounted = 16e6;

TEST(ResidentPeak, IsWhatTheBooksSay) {
  if (const std::string why = obstacle(); !why.empty())
    GTEST_SKIP() << why << "; run it in the preset dev, on a machine that has this";
  Job job("trains_wide_layers", kRanks, {{"arrival_ms", "120000"}, {"stall_ms", "120000"}, {"late_ms", "120000"}});
  ASSERT_TRUE(job.share_id() && job.all_report("peak ", 240'000)) << job.logs();
  for (int rank = 0; rank < kRanks; ++rank) {
    double peak = 0;
    double books = 0;
    std::istringstream(job[rank].lines().back().substr(5)) >> peak >> books;
    std::printf("rank %d: resident %.1f MB, in the books %.1f MB\n", rank, peak / 1e6, books / 1e6);
    EXPECT_LE(peak, books + kUncounted);
    EXPECT_GE(peak, books);
    EXPECT_EQ(job[rank].join(30'000), 0);
  }
}

// A usual run measures the last stage, which divides all that the others divide.
TEST(ResidentPeak, FallsByWhatTheFormulasSay) {
  if (const std::string why = obstacle(); !why.empty())
    GTEST_SKIP() << why << "; run it in the preset dev, on a machine that has this";
  const double whole = peak_of(0);
  std::printf("stage 0: resident peak %.1f MB a rank, model state by the formula %.1f MB\n", whole / 1e6,
              formula(0) / 1e6);
  for (int stage = testing_support::rounds(3, 1); stage <= 3; ++stage) {
    const double fall = whole - peak_of(stage);
    const double expected = formula(0) - formula(stage);
    std::printf("stage %d: falls by %.1f MB, formula %.1f MB: %+.1f %%\n", stage, fall / 1e6, expected / 1e6,
                100 * (fall / expected - 1));
    EXPECT_TRUE(within_tolerance(fall, expected)) << "stage " << stage << ": " << fall << " bytes, not " << expected;
  }
  // The test would show one copy of the weights too many.
  EXPECT_FALSE(within_tolerance(whole - peak_of(3, 1), formula(0) - formula(3)));
}

}  // namespace
}  // namespace wreath::gpt
