// This file allocates counted memory.
#include "training/compute/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "training/compute/compute.hpp"

namespace wreath::training {

namespace {

// An error with a text like "8.5 GiB for activations cannot be had".
class OutOfMemory final : public std::bad_alloc {
 public:
  OutOfMemory(MemoryTag tag, std::size_t bytes)
      : text_(fmt::format("memory: {:.1f} GiB for {} cannot be had", static_cast<double>(bytes) / (1 << 30),
                          name(tag))) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

}  // namespace

std::string_view name(MemoryTag tag) noexcept {
  constexpr std::array<std::string_view, kMemoryTags> kNames = {"parameters", "gradients",   "optimizer", "gathered",
                                                                "buckets",    "activations", "workspace", "checkpoint"};
  return kNames[static_cast<std::size_t>(tag)];
}

void MemoryAccounting::add(MemoryTag tag, std::size_t bytes) noexcept {
  bytes_[index(tag)] += bytes;
  peak_bytes_[index(tag)] = std::max(peak_bytes_[index(tag)], bytes_[index(tag)]);
}

void* allocate_counted(MemoryAccounting& accounting, MemoryTag tag, std::size_t bytes) {
  Compute* const on = tag == MemoryTag::Checkpoint ? nullptr : accounting.compute();
  void* const data = on != nullptr ? on->allocate(bytes) : accounting.pool().take(bytes);
  if (data == nullptr) throw OutOfMemory(tag, bytes);
  accounting.add(tag, bytes);
  return data;
}

void zero_counted(void* data, std::size_t bytes) {
  if (Compute* const on = compute_of(data)) return on->zero(data, bytes);
  std::memset(data, 0, bytes);
}

void free_counted(MemoryAccounting& accounting, MemoryTag tag, void* data, std::size_t bytes) noexcept {
  accounting.remove(tag, bytes);
  if (Compute* const on = compute_of(data)) return on->free(data);
  accounting.pool().give(data, bytes);
}

}  // namespace wreath::training
