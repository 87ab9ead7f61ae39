// A caller leaves out one call of a step. With every strategy this is an error that names the call.
#include "training/data_parallel/step_order.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "tests/training/data_parallel/driver.hpp"

namespace wreath::training::test {
namespace {

using Call = std::function<void(DataParallel&)>;

struct NamedCall {
  std::string name;
  Call call;
};

// Returns the calls of a step of two units and one micro-batch.
std::vector<NamedCall> whole_step() {
  std::vector<NamedCall> calls = {{"begin_step", [](DataParallel& s) { s.begin_step(1); }}};
  for (const int unit : {0, 1}) {
    calls.push_back({"before_forward", [unit](DataParallel& s) { s.before_forward(unit); }});
    calls.push_back({"after_forward", [unit](DataParallel& s) { s.after_forward(unit); }});
  }
  for (const int unit : {1, 0}) {
    calls.push_back({"before_backward", [unit](DataParallel& s) { s.before_backward(unit); }});
    calls.push_back({"after_backward", [unit](DataParallel& s) { s.after_backward(unit); }});
    calls.push_back({"gradients_ready", [unit](DataParallel& s) { s.gradients_ready(unit); }});
  }
  calls.push_back({"finish_backward", [](DataParallel& s) { s.finish_backward(); }});
  calls.push_back({"finish_step", [](DataParallel& s) { s.finish_step(); }});
  return calls;
}

// A job of one rank, which is enough to test an order.
struct Alone {
  explicit Alone(const DataParallelOptions& options) : mesh(Mesh::create(nullptr, {}, traffic).value()) {
    parameters.add(parameter_of("first", {3}, 0));
    parameters.add(parameter_of("second", {5}, 1));
    strategy = make_data_parallel(parameters, {mesh.replicas(), mesh.tp(), mesh.embedding()}, memory, options);
  }
  CommunicationAccounting traffic;
  MemoryAccounting memory;
  Mesh mesh;
  ParameterList parameters;
  std::unique_ptr<DataParallel> strategy;
};

// Returns the error of two steps without the call `left_out`, or an empty text where there is none.
std::string told(DataParallel& strategy, std::size_t left_out) {
  const std::vector<NamedCall> calls = whole_step();
  try {
    for (int step = 0; step < 2; ++step) {
      for (std::size_t i = 0; i < calls.size(); ++i) {
        if (i != left_out) calls[i].call(strategy);
      }
    }
  } catch (const Exception& refused) {
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidUsage);
    return refused.what();
  }
  return {};
}

std::vector<DataParallelOptions> all_strategies() {
  std::vector<DataParallelOptions> all;
  for (const bool half : {false, true}) {
    for (const int stage : {0, 1, 2, 3}) {
      DataParallelOptions options;
      options.zero_stage = stage;
      if (half) options.half = DataType::BFloat16;
      all.push_back(options);
    }
  }
  return all;
}

TEST(StepOrder, NamesWhicheverCallIsLeftOut) {
  const std::vector<NamedCall> calls = whole_step();
  for (const DataParallelOptions& options : all_strategies()) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      Alone alone(options);
      const std::string text = told(*alone.strategy, i);
      EXPECT_NE(text.find(calls[i].name), std::string::npos)
          << "stage " << options.zero_stage << " without call " << i << ", " << calls[i].name << ": '" << text << "'";
      EXPECT_NE(text.find("left out"), std::string::npos) << text;
    }
    Alone alone(options);
    EXPECT_EQ(told(*alone.strategy, calls.size()), "");
  }
}

TEST(StepOrder, ASkippedStepAndANewBeginningAreAllowed) {
  Alone alone({});
  std::vector<NamedCall> calls = whole_step();
  calls.back() = {"skip_step", [](DataParallel& s) { s.skip_step(); }};
  for (int step = 0; step < 2; ++step) {
    for (const NamedCall& call : calls) call.call(*alone.strategy);
  }
  // A caller that has loaded weights calls finish_step() outside a step.
  alone.strategy->finish_step();
}

TEST(StepOrder, CallsOfUnitsThatAreNotThereAreRefused) {
  Alone alone({});
  for (const int unit : {-1, 2}) {
    EXPECT_THROW(alone.strategy->before_forward(unit), Exception);
    EXPECT_THROW(alone.strategy->gradients_ready(unit), Exception);
  }
}

// Layers use weights that no call has gathered.
TEST(StepOrder, AParameterThatIsNotHereNamesItsStep) {
  DataParallelOptions options;
  options.zero_stage = 3;
  Alone alone(options);
  const auto refusal = [](const std::function<void()>& use) {
    try {
      use();
    } catch (const Exception& refused) {
      return std::string(refused.what());
    }
    return std::string("accepted");
  };
  const Parameter& second = alone.parameters.all()[1];
  EXPECT_EQ(refusal([&] { static_cast<void>(second.value_here()); }),
            "second: its value is not here: before_forward or before_backward of unit 1 was left out");
  EXPECT_EQ(refusal([&] { static_cast<void>(second.gradient_here()); }),
            "second: its gradient is not here: before_backward of unit 1 was left out");
  alone.strategy->before_forward(1);
  EXPECT_EQ(refusal([&] { static_cast<void>(second.value_here()); }), "accepted");
  alone.strategy->after_forward(1);
}

}  // namespace
}  // namespace wreath::training::test
