// Drives a data-parallel strategy without a model: gradients are a function of rank, step, micro-batch and index.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "training/data_parallel/bf16_compression.hpp"
#include "training/mesh/mesh.hpp"
#include "training/optimizer/optimizer.hpp"
#include "training/random/philox.hpp"
#include "training/strategies.hpp"

namespace wreath::training::test {

using Values = std::map<std::string, std::vector<float>>;  // by parameter

// The steps that each rank makes, and their options. Most tests keep the defaults of the fields.
struct Job {
  MeshShape shape;
  DataParallelOptions options;
  int steps = 3;
  int micro_batches = 1;
  // A number above 0 asks for hybrid sharding with so many shards.
  int hybrid_shards = 0;
  std::vector<std::string> transports = {};
  bool sgd = false;
  AdamWOptions adamw = {};
  std::function<void(ParameterList&, const MeshPlace&)> add_parameters;  // null: small_model
  std::function<bool(int unit, int rank)> uses;                          // null: every rank uses every unit
  std::function<void(Mesh&, MemoryAccounting&)> planted_bug;             // runs in each step
};

struct Outcome {
  Values weights;
  // The gradients of the last step, for the pieces that this rank owns. Each is laid out as its parameter, with zeros
  // elsewhere.
  Values gradients;
  CommunicationAccounting traffic;
  MemoryAccounting memory;
  std::size_t own_elements = 0;
  double norm = 0;
};

inline Parameter parameter_of(const std::string& name, std::vector<std::int64_t> shape, int unit) {
  Parameter parameter;
  parameter.name = name;
  parameter.decays = shape.size() > 1;
  parameter.shape = std::move(shape);
  parameter.unit = unit;
  parameter.initial_deviation = 0.02f;
  return parameter;
}

// Adds parameters of odd sizes, so that nothing divides by 2, 3 or 4.
inline void small_model(ParameterList& parameters, const MeshPlace& /*place*/) {
  parameters.add(parameter_of("wte", {13, 7}, 0));
  parameters.add(parameter_of("wpe", {3, 7}, 0));
  for (int unit = 1; unit <= 3; ++unit) {
    const std::string block = "h." + std::to_string(unit - 1) + ".";
    parameters.add(parameter_of(block + "ln", {7}, unit));
    parameters.add(parameter_of(block + "attn", {7, 21}, unit));
    parameters.add(parameter_of(block + "mlp", {7, 29}, unit));
  }
  parameters.add(parameter_of("ln_f", {7}, 4));
}
inline constexpr std::size_t kSmallModelElements = 13 * 7 + 3 * 7 + 3 * (7 + 7 * 21 + 7 * 29) + 7;

struct Draw {
  int rank = 0;
  int step = 0;
  int micro_batch = 0;
};

// Returns gradients of different magnitudes, so that the order of a sum shows in its bits.
inline float gradient_at(const Draw& draw, const std::string& name, std::size_t index) {
  const RandomStream stream(77 + static_cast<std::uint64_t>(draw.rank * 131 + draw.micro_batch), name,
                            static_cast<std::uint32_t>(draw.step));
  return stream.normal(index) * (index % 3 == 0 ? 100.0f : 0.01f);
}

inline void add_gradients(ParameterList& parameters, int unit, const Draw& draw) {
  for (Parameter& parameter : parameters.all()) {
    if (parameter.unit != unit) continue;
    ASSERT_EQ(parameter.gradient.size(), static_cast<std::size_t>(parameter.local_count())) << parameter.name;
    for (std::size_t i = 0; i < parameter.gradient.size(); ++i) {
      parameter.gradient[i] += gradient_at(draw, parameter.name, i);
    }
  }
}

inline void forward_all(const ParameterList& parameters, DataParallel& strategy) {
  for (int unit = 0; unit < parameters.units(); ++unit) {
    strategy.before_forward(unit);
    strategy.after_forward(unit);
  }
}

inline void backward(const Job& job, ParameterList& parameters, DataParallel& strategy, const Draw& draw) {
  const auto uses = [&](int unit) { return !job.uses || job.uses(unit, draw.rank); };
  for (int unit = 0; unit < parameters.units(); ++unit) {
    if (!uses(unit)) continue;
    strategy.before_forward(unit);
    for (const Parameter& parameter : parameters.all()) {
      if (parameter.unit == unit) {
        ASSERT_EQ(parameter.value.size(), static_cast<std::size_t>(parameter.local_count())) << parameter.name;
      }
    }
    strategy.after_forward(unit);
  }
  for (int unit = parameters.units() - 1; unit >= 0; --unit) {
    if (!uses(unit)) continue;
    strategy.before_backward(unit);
    add_gradients(parameters, unit, draw);
    const auto also = static_cast<std::size_t>(unit);
    if (also < job.options.also_uses.size()) {
      for (const int used : job.options.also_uses[also]) add_gradients(parameters, used, draw);
    }
    strategy.after_backward(unit);
    strategy.gradients_ready(unit);
  }
}

inline void note_gradients(std::span<const Piece> pieces, Outcome& outcome) {
  outcome.gradients.clear();
  for (const Piece& piece : pieces) {
    std::vector<float>& gradient = outcome.gradients[piece.parameter->name];
    gradient.resize(static_cast<std::size_t>(piece.parameter->local_count()));
    std::copy(piece.gradient.begin(), piece.gradient.end(), gradient.begin() + piece.begin);
  }
}

inline void note_weights(ParameterList& parameters, DataParallel& strategy, Outcome& outcome) {
  for (int unit = 0; unit < parameters.units(); ++unit) {
    strategy.before_forward(unit);
    for (const Parameter& parameter : parameters.all()) {
      if (parameter.unit == unit)
        outcome.weights[parameter.name].assign(parameter.value.begin(), parameter.value.end());
    }
    strategy.after_forward(unit);
  }
}

// Runs one rank of the job; `world` is empty where the rank is alone.
inline void run_rank(const Job& job, std::shared_ptr<Communicator> world, Outcome& outcome) {
  Mesh mesh = Mesh::create(std::move(world), job.shape, outcome.traffic).value();
  ParameterList parameters;
  (job.add_parameters ? job.add_parameters : small_model)(parameters, mesh.place());
  HybridGroups hybrid;
  DataParallelGroups groups{mesh.replicas(), mesh.tp(), mesh.embedding()};
  if (job.hybrid_shards > 0) {
    hybrid = make_hybrid_groups(mesh.replicas(), job.hybrid_shards);
    groups.shards = hybrid.shards.get();
    groups.replicate = hybrid.replicate.get();
  }
  const auto strategy = make_data_parallel(parameters, groups, outcome.memory, job.options);
  const auto optimizer = job.sgd ? make_sgd() : make_adamw(strategy->pieces(), job.adamw, outcome.memory);
  for (int step = 0; step < job.steps; ++step) {
    strategy->begin_step(job.micro_batches);
    for (int i = 0; i < job.micro_batches; ++i) backward(job, parameters, *strategy, {mesh.rank(), step, i});
    strategy->finish_backward();
    note_gradients(strategy->pieces(), outcome);
    if (job.planted_bug) job.planted_bug(mesh, outcome.memory);
    outcome.norm = gradient_norm(strategy->pieces(), strategy->divided(), mesh);
    optimizer->step(strategy->pieces(), 0.01f, 0.5f);
    strategy->finish_step();
  }
  for (const Piece& piece : strategy->pieces()) outcome.own_elements += piece.value.size();
  const CommunicationAccounting counted = outcome.traffic;
  note_weights(parameters, *strategy, outcome);
  outcome.traffic = counted;
}

// Runs all ranks of the job as threads. An exception of a rank fails the test with its message.
inline std::vector<Outcome> run(const Job& job) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(job.shape.ranks()));
  const auto body = [&](std::shared_ptr<Communicator> world, std::size_t rank) {
    try {
      run_rank(job, std::move(world), outcomes[rank]);
    } catch (const Exception& exception) {
      ADD_FAILURE() << "rank " << rank << ": " << exception.what();
    }
  };
  if (job.shape.ranks() == 1) {
    body(nullptr, 0);
    return outcomes;
  }
  CommunicatorOptions options;
  options.transports = job.transports;
  wreath::test::LocalRanks ranks(job.shape.ranks(), options);
  ranks.run([&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    body(std::make_shared<Communicator>(std::move(communicator)), rank);
  });
  return outcomes;
}

inline Job job_of(int dp, int zero_stage) {
  Job job;
  job.shape.dp = dp;
  job.options.zero_stage = zero_stage;
  return job;
}

// Returns the sum of 1 to 4 ranks in the library's order, neighbours first (docs/decisions/0002).
inline float canonical_sum(const std::vector<float>& of_ranks) {
  if (of_ranks.size() == 1) return of_ranks[0];
  if (of_ranks.size() == 2) return of_ranks[0] + of_ranks[1];
  if (of_ranks.size() == 3) return (of_ranks[0] + of_ranks[1]) + of_ranks[2];
  return (of_ranks[0] + of_ranks[1]) + (of_ranks[2] + of_ranks[3]);
}

}  // namespace wreath::training::test
