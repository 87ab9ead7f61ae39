// Asks the host device first, then CUDA, where this process uses it.
#include <fmt/format.h>

#include "src/device/check_copy.hpp"
#include "src/device/cuda/platform.hpp"
#include "src/device/device_memory.hpp"
#include "src/device/library_device.hpp"
#include "src/device/refuse_cuda.hpp"

namespace wreath {
namespace {

Status check_range(const Device& device, const void* data, std::size_t bytes) {
  WREATH_TRY(check_reaches(device, data));
  const PointerFacts facts = facts_of(data);
  if (facts.kind == MemoryKind::Host) return {};
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - facts.begin);
  if (offset <= facts.bytes && bytes <= facts.bytes - offset) return {};
  return Error{ErrorCode::InvalidArgument, fmt::format("{}: copy of {} bytes at {}, where {} bytes are left of its {}",
                                                       device.name(), bytes, data, facts.bytes - offset, facts.bytes)};
}

}  // namespace

PointerFacts facts_of(const void* data) {
  if (const PointerFacts own = host_facts_of(data); own.kind != MemoryKind::Host) return own;
  CudaPlatform* const cuda = CudaPlatform::opened();
  return cuda == nullptr ? PointerFacts{} : cuda->facts_of(data);
}

Status check_reaches(const Device& device, const void* data) {
  const PointerFacts facts = facts_of(data);
  if (facts.kind != MemoryKind::Device || facts.device == &device) return {};
  return Error{ErrorCode::InvalidArgument,
               fmt::format("{}: {} is memory of another device, {}", device.name(), data,
                           facts.device == nullptr ? "which does not start" : facts.device->name())};
}

Status refuse_cuda_memory(std::string_view argument, const void* data) {
  const PointerFacts facts = facts_of(data);
  if (facts.kind != MemoryKind::Device || facts.device == &host_device()) return {};
  return Error{ErrorCode::InvalidArgument,
               fmt::format("{} = {} is memory of {}, which no transport takes yet: copy it to pinned memory", argument,
                           data, facts.device == nullptr ? "a CUDA device" : facts.device->name()),
               -1};
}

Status check_copy(const Device& device, const void* target, const void* source, std::size_t bytes) {
  if (target == nullptr || source == nullptr) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{} device: copy of {} bytes {} null", device.name(), bytes,
                                                         target == nullptr ? "to" : "from")};
  }
  WREATH_TRY(check_range(device, target, bytes));
  return check_range(device, source, bytes);
}

Status outcome_of(const std::function<Status()>& work, std::string_view where) {
  try {
    return work();
  } catch (const Exception& thrown) {
    return thrown.error();
  } catch (const std::exception& thrown) {
    return Error{ErrorCode::System, fmt::format("{} stream: its work threw: {}", where, thrown.what()), -1};
  }
}

}  // namespace wreath
