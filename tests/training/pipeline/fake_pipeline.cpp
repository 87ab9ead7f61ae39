// Runs the fake stages.
#include "tests/training/pipeline/fake_pipeline.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>

#include "wreath/wreath.hpp"

namespace wreath::training::test {

namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

void work_for(std::chrono::microseconds time) {
  if (time.count() > 0) std::this_thread::sleep_for(time);
}

}  // namespace

FakeStage::FakeStage(int stage, int stages, int micro_batches, std::size_t count, const StageTimes& times)
    : stage_(stage),
      stages_(stages),
      count_(count),
      times_(times),
      weight_(0.7f + 0.11f * static_cast<float>(stage)),
      inputs_(index(micro_batches)),
      gradients_(index(micro_batches)) {}

void FakeStage::forward(int micro_batch, std::span<const float> input, std::span<float> output) {
  if (on_forward) on_forward(micro_batch);
  work_for(times_.forward);
  std::vector<float>& x = inputs_[index(micro_batch)];
  x.assign(input.begin(), input.end());
  for (std::size_t i = 0; stage_ == 0 && i < count_; ++i) {
    x.push_back(0.1f * static_cast<float>(i + 1) + 0.3f * static_cast<float>(micro_batch));
  }
  for (std::size_t i = 0; i < count_; ++i) {
    const float y = weight_ * x[i] + static_cast<float>(micro_batch);
    if (stage_ == stages_ - 1) {
      loss_ += y;
    } else {
      output[i] = y;
    }
  }
}

void FakeStage::backward(int micro_batch, std::span<const float> output_gradient, std::span<float> input_gradient) {
  work_for(times_.backward_input);
  std::vector<float>& gradient = gradients_[index(micro_batch)];
  gradient.assign(output_gradient.begin(), output_gradient.end());
  for (std::size_t i = 0; stage_ == stages_ - 1 && i < count_; ++i) {
    gradient.push_back(0.01f * static_cast<float>(i + 1) * static_cast<float>(micro_batch + 1));
  }
  for (std::size_t i = 0; i < input_gradient.size(); ++i) input_gradient[i] = weight_ * gradient[i];
}

void FakeStage::backward_weights(int micro_batch) {
  work_for(times_.backward_weights);
  std::vector<float>& x = inputs_[index(micro_batch)];
  std::vector<float>& gradient = gradients_[index(micro_batch)];
  for (std::size_t i = 0; i < count_; ++i) weight_gradient_ += gradient.at(i) * x.at(i);
  x.clear();
  gradient.clear();
}

int FakeStage::kept() const {
  const auto full = [](const std::vector<float>& values) { return !values.empty(); };
  return static_cast<int>(std::count_if(inputs_.begin(), inputs_.end(), full) +
                          std::count_if(gradients_.begin(), gradients_.end(), full));
}

void with_groups(int ranks, const CommunicatorOptions& options,
                 const std::function<void(Group& group, CommunicationAccounting& accounting)>& body) {
  std::vector<Communicator> communicators = Communicator::create_local(ranks, options).value();
  std::vector<std::exception_ptr> errors(index(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          CommunicationAccounting accounting;
          auto communicator = std::make_shared<Communicator>(std::move(communicators[index(rank)]));
          Group group = ranks == 1 ? Group("pp", accounting) : Group("pp", communicator, accounting);
          body(group, accounting);
        } catch (...) {
          errors[index(rank)] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

PipelineOutcome run_pipeline(const PipelineSchedule& schedule, const Run& run) {
  PipelineOutcome outcome;
  outcome.weight_gradients.resize(index(schedule.stages()));
  std::mutex mutex;
  with_groups(schedule.ranks, run.options, [&](Group& group, CommunicationAccounting& accounting) {
    MemoryAccounting memory;
    std::vector<std::unique_ptr<FakeStage>> stages;
    std::vector<Stage*> chunks;
    for (int chunk = 0; chunk < schedule.chunks_per_rank; ++chunk) {
      stages.push_back(std::make_unique<FakeStage>(schedule.stage_of(group.rank(), chunk), schedule.stages(),
                                                   schedule.micro_batches, run.count, run.times));
      chunks.push_back(stages.back().get());
    }
    Pipeline pipeline = Pipeline::create(group, schedule, chunks, memory).value();
    std::vector<std::vector<Timeline>> timelines;
    for (int step = 0; step < run.steps; ++step) {
      pipeline.run_step();
      timelines.push_back(pipeline.gather_timelines());
    }
    const std::lock_guard lock(mutex);
    for (int chunk = 0; chunk < schedule.chunks_per_rank; ++chunk) {
      const FakeStage& stage = *stages[index(chunk)];
      outcome.weight_gradients[index(schedule.stage_of(group.rank(), chunk))] = stage.weight_gradient();
      outcome.loss += stage.loss();
      outcome.kept += stage.kept();
    }
    for (const auto& [key, traffic] : accounting.all()) {
      const bool sent = key == CommunicationAccounting::Key{"pp", "send"};
      const bool received = key == CommunicationAccounting::Key{"pp", "recv"};
      (sent ? outcome.sent_bytes : received ? outcome.received_bytes : outcome.other_bytes) += traffic.bytes;
    }
    outcome.bytes_left += memory.bytes(MemoryTag::Activations);
    if (group.rank() == 0) outcome.timelines = std::move(timelines);
  });
  return outcome;
}

}  // namespace wreath::training::test
