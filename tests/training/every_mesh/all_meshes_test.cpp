// Every mesh is compared with one rank at every step. This takes half an hour, so it needs WREATH_TEST_LONG=1.
#include "tests/training/every_mesh/all_meshes.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/processes.hpp"
#include "tests/training/parity/reference.hpp"
#include "tests/training/parity/table.hpp"

namespace wreath::gpt::test::every_mesh {
namespace {

constexpr std::int64_t kSteps = 300;

// Returns options with 8 heads: one for each of 8 tensor ranks, or of 8 ranks of Ulysses.
TrainOptions base_options(OptimizerKind optimizer) {
  TrainOptions options = small_options();
  options.model.heads = 8;
  if (optimizer == OptimizerKind::Sgd) use_plain_descent(options);
  return options;
}

// The run of a model on one rank, and the bound for the distance of other curves from it.
struct Reference {
  TrainingRun alone;
  double bound = 0;
};

Reference reference_of(const TrainOptions& base, std::int64_t layers, ParityTable& table) {
  TrainOptions options = base;
  options.model.layers = layers;
  Reference reference{train(options, kSteps), 0};
  const double spread = spread_around(reference.alone, options);
  reference.bound = std::max(kLossBound, 3 * spread);
  table.say(
      fmt::format("{} layers: loss {:.4f} to {:.4f}; spread of 8 runs with noise of one unit in the last place {:.1e}",
                  layers, reference.alone.losses.front(), reference.alone.losses.back(), spread));
  return reference;
}

ParityRow compare(const NamedMesh& mesh, const Reference& reference, const Prepare& prepare = {}) {
  ParityRow row{.mesh = mesh.name, .ranks = mesh.options.mesh.ranks(), .bound = reference.bound};
  // The timeouts are long because many ranks share few busy cores.
  CommunicatorOptions patient;
  patient.timeouts.stall_ms = 600'000;
  try {
    const TrainingRun run = train(mesh.options, kSteps, prepare, patient);
    const StepDifference worst = worst_step(reference.alone.losses, run.losses);
    row.loss = worst.value;
    row.at = worst.step;
    row.gradients = largest_difference(reference.alone.first_gradients, run.first_gradients);
    row.norm = std::abs(run.gradient_norms[0] / reference.alone.gradient_norms[0] - 1);
  } catch (const std::exception& failure) {
    row.failure = failure.what();
  }
  return row;
}

// Runs as many meshes at a time as there are cores, because ranks wait for each other most of the time. Rows come in
// order.
std::vector<ParityRow> compare_all(const std::vector<NamedMesh>& meshes,
                                   const std::map<std::int64_t, Reference>& references, ParityTable& table) {
  std::vector<std::optional<ParityRow>> done(meshes.size());
  std::vector<ParityRow> rows;
  std::mutex mutex;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < meshes.size(); i = next++) {
      ParityRow row = compare(meshes[i], references.at(meshes[i].options.model.layers));
      const std::lock_guard lock(mutex);
      done[i] = std::move(row);
      for (; rows.size() < done.size() && done[rows.size()]; rows.push_back(*done[rows.size()])) {
        table.add(*done[rows.size()]);
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < std::clamp(std::thread::hardware_concurrency(), 1u, 8u); ++i) workers.emplace_back(work);
  }
  return rows;
}

void summarise(const std::vector<ParityRow>& rows, int ranks, ParityTable& table) {
  ParityRow worst{.ranks = ranks};
  int count = 0;
  for (const ParityRow& row : rows) {
    if (row.ranks != ranks) continue;
    ++count;
    if (row.loss >= worst.loss) {
      worst.loss = row.loss;
      worst.at = row.at;
    }
    worst.gradients = std::max(worst.gradients, row.gradients);
    worst.norm = std::max(worst.norm, row.norm);
    worst.bound = std::max(worst.bound, row.bound);
    if (!row.failure.empty()) worst.failure = row.failure;
  }
  worst.mesh = fmt::format("the worst of {} meshes", count);
  table.add(worst);
}

// A planted fault must go far beyond the bounds, or else they would prove nothing.
void expect_seen(const char* fault, const TrainOptions& base, const Reference& reference, const Prepare& plant,
                 ParityTable& table) {
  NamedMesh mesh{fault, base};
  mesh.options.mesh = {.dp = 2};
  const ParityRow row = compare(mesh, reference, plant);
  const double by_loss = row.loss / reference.bound;
  const double by_gradients = row.gradients / kGradientBound;
  table.say(
      fmt::format("planted fault, dp2: {}: loss {:.1e}, {:.0f} times the bound; first gradients {:.1e}, {:.0f} times",
                  fault, row.loss, by_loss, row.gradients, by_gradients));
  EXPECT_TRUE(row.failure.empty()) << row.failure;
  EXPECT_GT(by_loss, kFaultFactor) << fault;
}

void follow_everywhere(OptimizerKind optimizer, const std::string& name) {
  if (testing_support::kSanitized)
    GTEST_SKIP() << "a sanitizer looks at what runs, not at where the curve ends: run it in the preset dev";
  if (testing_support::rounds(0, 1) == 0)
    GTEST_SKIP() << "every mesh, for about half an hour: run it with WREATH_TEST_LONG=1";
  const TrainOptions base = base_options(optimizer);
  const std::vector<NamedMesh> meshes = all_meshes(base);
  const std::string path =
      (std::filesystem::path(WREATH_BINARY_DIR).parent_path() / ("parity-" + name + ".txt")).string();
  ParityTable table(path, fmt::format("{} meshes beside one rank, {} steps, {}: the largest relative differences",
                                      meshes.size(), kSteps, name));
  std::map<std::int64_t, Reference> references;
  for (const NamedMesh& mesh : meshes) {
    const std::int64_t layers = mesh.options.model.layers;
    if (!references.contains(layers)) references.emplace(layers, reference_of(base, layers, table));
  }
  const Reference& smallest = references.at(base.model.layers);
  EXPECT_LT(smallest.alone.losses.back(), 0.8 * smallest.alone.losses.front());
  expect_seen("a layer norm that is not synchronised", base, smallest, keep_a_layer_norm_apart, table);
  expect_seen("sums instead of means", base, smallest, take_sums_for_means, table);
  table.head();
  const std::vector<ParityRow> rows = compare_all(meshes, references, table);
  for (const int ranks : {2, 4, 8}) summarise(rows, ranks, table);
  for (const ParityRow& row : rows) EXPECT_TRUE(row.ok()) << row.mesh << " " << row.failure;
  std::printf("the table is in %s\n", path.c_str());
}

TEST(AllMeshes, FollowTheCurveOfOneRank) { follow_everywhere(OptimizerKind::AdamW, "adamw"); }

TEST(AllMeshes, FollowItWithPlainGradientDescent) { follow_everywhere(OptimizerKind::Sgd, "sgd"); }

TEST(AllMeshes, AreEachThereOnceAndFit) {
  const std::vector<NamedMesh> meshes = all_meshes(base_options(OptimizerKind::AdamW));
  std::set<std::string> names;
  for (const NamedMesh& mesh : meshes) {
    names.insert(mesh.name);
    const Status fits = check(mesh.options);
    EXPECT_TRUE(fits) << mesh.name << ": " << fits.error().message;
  }
  EXPECT_EQ(names.size(), meshes.size());
  for (const char* expected : {"dp2", "dp8 zero 3", "pp8 interleaved", "pp4 zb_h1", "cp8 ring", "cp8 all-to-all zero 2",
                               "tp8 sp", "dp2 x pp2 gpipe x tp2 sp zero 1", "pp2 1f1b x cp2 all-to-all x tp2"}) {
    EXPECT_TRUE(names.contains(expected)) << expected;
  }
}

}  // namespace
}  // namespace wreath::gpt::test::every_mesh
