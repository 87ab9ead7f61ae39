// Runs training on threads.
#include "tests/training/meshes/runs.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "training/random/philox.hpp"

namespace wreath::gpt::test {

namespace {

// Puts this rank's part of each parameter's value or gradient into the whole one.
void collect(std::span<const training::Piece> pieces, bool gradients,
             std::map<std::string, std::vector<float>>& whole) {
  for (const training::Piece& piece : pieces) {
    std::vector<float>& into = whole[piece.parameter->name];
    into.resize(static_cast<std::size_t>(piece.parameter->count()));
    const std::int64_t end = piece.begin + static_cast<std::int64_t>(piece.value.size());
    std::vector<float> from(piece.value.size());
    training::copy(gradients ? piece.gradient : std::span<const float>(piece.value), std::span(from));
    training::for_each_run(*piece.parameter, [&](const training::Run& run) {
      const std::int64_t first = std::max(run.local, piece.begin);
      const std::int64_t last = std::min(run.local + run.count, end);
      for (std::int64_t i = first; i < last; ++i) {
        into[static_cast<std::size_t>(run.global + i - run.local)] = from[static_cast<std::size_t>(i - piece.begin)];
      }
    });
  }
}

}  // namespace

TrainOptions small_options() {
  TrainOptions options;
  options.model.layers = 4;
  options.model.heads = 4;
  options.model.width = 32;
  options.model.context = 24;
  options.batch = 8;
  options.warmup_steps = 20;
  options.decay_steps = 300;
  return options;
}

const Text& small_text() {
  static const Text text = [] {
    constexpr int kLetters = 53;
    const training::RandomStream stream(7, "text");
    std::string letters;
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      last = stream.uniform(i) < 0.7f ? (last * 5 + 3) % kLetters : stream.below(kLetters, i + 1'000'000);
      letters.push_back(static_cast<char>('A' + last));
    }
    return Text::from("a small text", letters, 24).value();
  }();
  return text;
}

TrainingRun train(const TrainOptions& options, std::int64_t steps, const Prepare& prepare,
                  const CommunicatorOptions& communicator) {
  std::vector<Communicator> communicators = Communicator::create_local(options.mesh.ranks(), communicator).value();
  TrainingRun run;
  run.traffic.resize(communicators.size());
  run.memory.resize(communicators.size());
  std::mutex mutex;
  std::exception_ptr failure;
  const auto body = [&](Communicator& of_rank) {
    const auto world = std::make_shared<Communicator>(std::move(of_rank));
    try {
      const std::unique_ptr<Trainer> trainer = Trainer::create(world, options, small_text()).value();
      if (prepare) prepare(*trainer);
      trainer->observe_gradients([&](std::span<const training::Piece> pieces) {
        const std::lock_guard lock(mutex);
        if (trainer->steps_done() == 0) collect(pieces, true, run.first_gradients);
      });
      for (std::int64_t step = 0; step < steps; ++step) {
        const StepResult result = trainer->step();
        if (world->rank() != 0) continue;
        run.losses.push_back(result.loss);
        run.gradient_norms.push_back(result.gradient_norm);
      }
      const std::lock_guard lock(mutex);
      collect(trainer->strategy().pieces(), false, run.weights);
      run.traffic[static_cast<std::size_t>(world->rank())] = trainer->communication();
      run.memory[static_cast<std::size_t>(world->rank())] = trainer->memory();
    } catch (...) {
      (void)world->abort();
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (Communicator& of_rank : communicators) threads.emplace_back([&] { body(of_rank); });
  }
  if (failure) std::rethrow_exception(failure);
  return run;
}

StepDifference worst_step(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  StepDifference worst{a.size() == b.size() ? 0 : kNone, 0};
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = std::abs(a[i] - b[i]) / std::abs(a[i]);
    if (difference <= worst.value) continue;
    worst = {std::isnan(difference) ? kNone : difference, static_cast<std::int64_t>(i)};
  }
  return worst;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) { return worst_step(a, b).value; }

double largest_difference(const std::map<std::string, std::vector<float>>& a,
                          const std::map<std::string, std::vector<float>>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (const auto& [name, values] : a) {
    const auto found = b.find(name);
    if (found == b.end() || found->second.size() != values.size()) return std::numeric_limits<double>::infinity();
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double gap = static_cast<double>(values[i]) - static_cast<double>(found->second[i]);
      difference += gap * gap;
      size += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    const double relative = difference == 0 ? 0 : std::sqrt(difference / size);
    if (std::isnan(relative)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, relative);
  }
  return largest;
}

}  // namespace wreath::gpt::test
