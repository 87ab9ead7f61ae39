// Makes segments of memory whose pages come as they are touched. A job of a few small messages touches a hundredth of
// its segment, and a test that makes thousands of jobs would spend its time on the other pages.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "src/base/region.hpp"
#include "src/fifo/local_fifo.hpp"
#include "src/fifo/segment_memory.hpp"

namespace wreath::testing_support {

// Serves this process alone, as host_segment_memory(false) does.
class UntouchedMemory final : public SegmentMemory {
 public:
  std::uint64_t device() const override { return 0; }
  bool shareable() const override { return false; }

  Result<std::shared_ptr<Region>> create(RegionSize size, std::string_view what) override {
    LocalMemory memory;
    WREATH_TRY(memory.allocate(size.bytes, what));
    return memory.region();
  }

  Result<std::optional<Offer>> describe(const Region& region, bool descriptors) override {
    return host_->describe(region, descriptors);
  }
  Result<std::shared_ptr<Region>> open(Offer theirs) override { return host_->open(std::move(theirs)); }
  UserMemory find_user_memory(const void* data, std::size_t bytes) override {
    return host_->find_user_memory(data, bytes);
  }

 private:
  std::unique_ptr<SegmentMemory> host_ = host_segment_memory(false);
};

}  // namespace wreath::testing_support
