// A caller leaves out a pass of a GPT's stage: the error names the pass.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "examples/train_gpt/model/gpt_stage.hpp"
#include "training/context_parallel/attention.hpp"
#include "training/strategies.hpp"

namespace wreath::gpt {
namespace {

// A whole model on one rank.
struct AloneStage {
  AloneStage() : mesh(training::Mesh::create(nullptr, {}, traffic).value()) {
    context.config = {.layers = 1, .heads = 1, .width = 4, .context = 2, .vocabulary = 3};
    context.shape = {1, {{0, 2}}};
    context.memory = &memory;
    context.region = &region;
    context.attention = attention.get();
    state.batches = {{.tokens = {0, 1}, .targets = {1, 2}}};
    state.losses.resize(1);
    stage = std::make_unique<GptStage>(parameters, StagePlace{}, nullptr, context, state);
  }
  void attach() {
    training::DataParallelOptions options;
    options.also_uses = {{}, {}, {0}};
    strategy =
        training::make_data_parallel(parameters, {mesh.replicas(), mesh.tp(), mesh.embedding()}, memory, options);
    stage->attach(*strategy);
    strategy->begin_step(1);
  }

  training::CommunicationAccounting traffic;
  training::MemoryAccounting memory;
  training::Mesh mesh;
  training::TensorRegion region{mesh.tp(), false, memory, false};
  std::unique_ptr<training::ContextAttention> attention = training::make_ring_attention(mesh.cp(), memory);
  ModelContext context;
  StepState state;
  training::ParameterList parameters;
  std::unique_ptr<GptStage> stage;
  std::unique_ptr<training::DataParallel> strategy;
};

std::string refusal(const std::function<void()>& pass) {
  try {
    pass();
  } catch (const Exception& refused) {
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidUsage);
    return refused.what();
  }
  return "accepted";
}

TEST(StageOrder, ALeftOutPassIsNamed) {
  AloneStage alone;
  EXPECT_EQ(refusal([&] { alone.stage->forward(0, {}, {}); }), "a stage of a GPT: attach was left out");
  alone.attach();
  EXPECT_EQ(refusal([&] { alone.stage->backward(0, {}, {}); }),
            "before_backward: before_forward of unit 2 was left out");
  EXPECT_EQ(refusal([&] { alone.stage->backward_weights(0); }), "micro-batch 0: its backward pass was left out");
  EXPECT_EQ(refusal([&] { alone.stage->forward(0, {}, {}); }), "accepted");
  EXPECT_EQ(refusal([&] { alone.stage->backward_weights(0); }), "micro-batch 0: its backward pass was left out");
  EXPECT_EQ(refusal([&] { alone.stage->backward(0, {}, {}); }), "accepted");
  EXPECT_EQ(refusal([&] { alone.stage->backward_weights(0); }), "accepted");
  EXPECT_EQ(refusal([&] { alone.strategy->finish_backward(); }), "accepted");
}

}  // namespace
}  // namespace wreath::gpt
