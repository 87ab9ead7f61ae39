// A run moves between a device and the CPU by its checkpoints.
#include "training/checkpoint/checkpoint.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/training/device/on_device.hpp"
#include "tests/training/meshes/runs.hpp"

namespace wreath::gpt::test {
namespace {

// One rank with a trainer, which goes on from the latest checkpoint where there is one.
class Rank {
 public:
  Rank(Device* device, const std::string& folder) : folder_(folder) {
    CommunicatorOptions communicator;
    if (device != nullptr) communicator.device = device->name();
    world_ = std::make_shared<Communicator>(std::move(Communicator::create_local(1, communicator).value().front()));
    TrainOptions options = small_options();
    options.model.layers = 1;
    options.model.width = 16;
    options.warmup_steps = 2;
    options.device = device;
    trainer_ = Trainer::create(world_, options, small_text()).value();
    const auto latest = training::latest_checkpoint(folder).value();
    if (!latest) return;
    const training::TrainingState state = training::load_checkpoint(*world_, *latest, shard()).value();
    trainer_->resume_at(state.step, state.optimizer_steps);
  }
  double step() { return trainer_->step().loss; }
  // Returns the weights and moments.
  std::vector<float> values() {
    std::vector<float> all;
    const auto add = [&](std::span<const float> values) {
      all.resize(all.size() + values.size());
      training::copy(values, std::span(all).last(values.size()));
    };
    for (const training::Piece& piece : shard().pieces) add(piece.value);
    for (const auto& moment : shard().moments) add(moment.values);
    return all;
  }
  void save() {
    const auto checkpointer = training::Checkpointer::create(*world_, folder_, shard(), trainer_->memory(), {}).value();
    training::TrainingState state;
    state.step = trainer_->steps_done();
    state.optimizer_steps = trainer_->optimizer().steps();
    checkpointer->save(state, shard()).value();
    checkpointer->wait().value();
  }

 private:
  training::Shard shard() { return {trainer_->strategy().pieces(), trainer_->optimizer().moments()}; }
  std::string folder_;
  std::shared_ptr<Communicator> world_;
  std::unique_ptr<Trainer> trainer_;
};

TEST(CheckpointOnDevice, MovesToTheCpuAndBack) {
  const std::string folder = testing::TempDir() + "wreath_device_checkpoint_" + std::to_string(::getpid());
  std::filesystem::remove_all(folder);
  Rank alone(nullptr, folder);
  std::vector<double> expected, losses;
  std::vector<float> before;
  for (Device* const device :
       {&training::test::tested_device(), static_cast<Device*>(nullptr), &training::test::tested_device()}) {
    Rank rank(device, folder);
    if (!before.empty()) {
      EXPECT_EQ(rank.values(), before);
    }
    for (int step = 0; step < 4; ++step) {
      losses.push_back(rank.step());
      expected.push_back(alone.step());
    }
    before = rank.values();
    rank.save();
  }
  EXPECT_LT(largest_difference(expected, losses), 5e-7);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace wreath::gpt::test
