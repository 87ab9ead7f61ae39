// The report of a run shows its results, and says when something is wrong.
#include "examples/train_gpt/run/report.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "tests/training/meshes/runs.hpp"

namespace wreath::gpt::test {
namespace {

using Spoil = std::function<void(Trainer&)>;

// Returns the page of two steps. `spoil` runs on each rank between the steps and the report.
std::string report_of(const TrainOptions& options, const Spoil& spoil = {}) {
  const std::string path = testing::TempDir() + "report_" + std::to_string(getpid()) + ".html";
  CommandLine line;
  line.train = options;
  std::vector<Communicator> communicators = Communicator::create_local(options.mesh.ranks()).value();
  const auto body = [&](Communicator& of_rank) {
    const auto world = std::make_shared<Communicator>(std::move(of_rank));
    const std::unique_ptr<Trainer> trainer = Trainer::create(world, options, small_text()).value();
    History history;
    for (int step = 0; step < 2; ++step) history.steps.push_back(trainer->step());
    if (spoil) spoil(*trainer);
    EXPECT_TRUE(write_report(path, line, history, *trainer, *world));
  };
  {
    std::vector<std::jthread> threads;
    for (Communicator& of_rank : communicators) threads.emplace_back([&] { body(of_rank); });
  }
  std::ifstream file(path);
  std::string page{std::istreambuf_iterator<char>(file), {}};
  unlink(path.c_str());
  return page;
}

bool says(const std::string& page, const std::string& text) { return page.find(text) != std::string::npos; }

TEST(Report, PayloadIsEqualToTheFormulas) {
  TrainOptions options = small_options();
  options.mesh = {.dp = 2, .tp = 2};
  options.zero_stage = 1;
  const std::string page = report_of(options);
  EXPECT_TRUE(says(page, ">equal<"));
  EXPECT_TRUE(says(page, "moved, bytes a step"));
  EXPECT_FALSE(says(page, ">unequal<"));
  EXPECT_FALSE(says(page, "pipeline</h2>"));
}

TEST(Report, SaysWhereItIsNot) {
  TrainOptions options = small_options();
  options.mesh = {.dp = 2};
  EXPECT_TRUE(
      says(report_of(options, [](Trainer& t) { t.communication().add("dp_cp", "all_reduce", 1); }), ">unequal<"));
  EXPECT_TRUE(says(report_of(options, [](Trainer& t) { t.communication().add("dp_cp", "barrier", 8); }), ">unequal<"));
  EXPECT_TRUE(says(report_of(options, [](Trainer& t) { t.communication().reset(); }), ">unequal<"));
}

TEST(Report, ShowsThePipelineMeasuredAndComputed) {
  TrainOptions options = small_options();
  options.mesh = {.pp = 2};
  options.micro_batches = 4;
  options.stage_sleep_ms = 1;
  const std::string page = report_of(options);
  EXPECT_TRUE(says(page, "1f1b, measured: "));
  EXPECT_TRUE(says(page, "1f1b, computed: "));
  EXPECT_TRUE(says(page, "<td>20.0 %</td>"));  // (p - 1) / (m + p - 1)
}

}  // namespace
}  // namespace wreath::gpt::test
