// StagedRun is a run around another one. The host works on copies of buffers in memory of a device: they are copied to
// pinned memory before the call, and back after it.
#pragma once

#include <cstddef>
#include <vector>

#include "src/device/library_device.hpp"
#include "src/engine/call_shape.hpp"
#include "src/engine/operation.hpp"
#include "src/engine/run.hpp"

namespace wreath {

class StagedRun final : public Run {
 public:
  explicit StagedRun(Place place) : place_(place) {}
  // Sets the operation and its run `inner`. The operation's buffers become the copies.
  void set(Operation& operation, Run& inner);

  Result<Started> start() override;
  // Copies results back when the inner run is done.
  Advance advance() override;
  RunFault fault() const override;
  std::optional<Rank> waiting_for() const override { return inner_->waiting_for(); }
  std::vector<Question> questions() const override { return inner_->questions(); }
  bool expects(Rank peer) const override { return inner_->expects(peer); }
  WireBytes moved() const override { return inner_->moved(); }
  Status end() override { return inner_->end(); }
  bool stop() override { return inner_->stop(); }
  std::optional<std::int64_t> longest_sleep_ns() const override { return inner_->longest_sleep_ns(); }

 private:
  struct Piece {
    LibraryDevice* device;
    std::byte* data;
    std::size_t bytes;
    bool written;
    std::byte* place;
  };

  Status copy_in();
  void add(std::byte* data, std::size_t bytes, bool written);
  Status copy_pieces();
  std::byte* at(const std::byte* data) const;
  Status copy_back();

  Place place_;
  Run* inner_ = nullptr;
  bool copied_ = false;
  std::vector<Piece> pieces_;
  // Pinned memory stays until the end, even memory that was too small.
  DeviceMemory memory_;
  std::vector<DeviceMemory> outgrown_;
  std::optional<Error> error_;
};

}  // namespace wreath
