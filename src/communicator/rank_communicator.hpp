// RankCommunicator puts one rank's communicator together: its members, its engine, split and shrink.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/bootstrap/bootstrap.hpp"
#include "src/communicator/options.hpp"
#include "src/engine/engine.hpp"
#include "src/membership/parent.hpp"
#include "src/membership/shrink.hpp"
#include "src/membership/split.hpp"

namespace wreath {

BootstrapRequest request_of(int rank, int ranks, const AgreedOptions& options, const Device* device);

class RankCommunicator final : public ChildCommunicator, private ParentCommunicator {
 public:
  // Links the members of `membership`, with the options that they agreed on.
  static Result<std::shared_ptr<RankCommunicator>> create(Membership membership, std::uint16_t epoch = 1);
  // Links `members`, which are those of `membership`.
  static Result<std::shared_ptr<RankCommunicator>> create(std::unique_ptr<Members> members, Membership membership,
                                                          std::uint16_t epoch = 1);
  ~RankCommunicator() override;

  const std::shared_ptr<Engine>& engine() const { return engine_; }
  // Splits the communicator. Returns null for a negative color. Only one split or shrink may run at a time.
  Result<std::shared_ptr<RankCommunicator>> split(int color, int key);
  // Shrinks the communicator. Only one split or shrink may run at a time.
  Result<std::shared_ptr<RankCommunicator>> shrink(std::int64_t timeout_ms, std::span<const Rank> without);
  // Aborts the communicator, and ends a shrink of this rank, too. Any thread may call it.
  Status abort();
  void leave() override { engine_->leave(); }

 private:
  RankCommunicator(std::unique_ptr<Members> members, Membership membership, const AgreedOptions& options);

  std::string identity() const override { return engine_->identity(); }
  Status error() const override { return engine_->error(); }
  void fail(ErrorCode code, Rank failed_rank, const std::string& reason) override {
    engine_->fail(code, failed_rank, reason);
  }
  bool differs() const override { return engine_->differs(); }
  Progressed progressed(Rank peer) const override { return engine_->progressed(peer); }
  Result<std::shared_ptr<ChildCommunicator>> join(const std::vector<Rank>& members, const UniqueId& id,
                                                  const Interrupt& interrupt) override;

  Device* device_;  // null: none
  std::shared_ptr<Engine> engine_;
  // The engine shares it, and may live longer than this object.
  std::shared_ptr<Split> split_;
  Shrink shrink_;
};

}  // namespace wreath
