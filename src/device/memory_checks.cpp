// Checks memory that calls and copies are given against its owner.
#include <fmt/format.h>

#include "src/device/call_memory.hpp"
#include "src/device/check_copy.hpp"
#include "src/device/library_device.hpp"

namespace wreath {
namespace {

Status check_end(std::string_view what, const PointerFacts& facts, const void* data, std::size_t bytes) {
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - facts.begin);
  if (offset <= facts.bytes && bytes <= facts.bytes - offset) return {};
  return Error{ErrorCode::InvalidArgument, fmt::format("{} of {} bytes at {}, where {} bytes are left of its {}", what,
                                                       bytes, data, facts.bytes - offset, facts.bytes)};
}

Status check_range(const Device& device, const PointerFacts& facts, const void* data, std::size_t bytes) {
  // The driver need not know where other kinds of memory end.
  if (facts.kind != MemoryKind::Device) return {};
  if (facts.device == &device) return check_end(fmt::format("{}: copy", device.name()), facts, data, bytes);
  return Error{ErrorCode::InvalidArgument,
               fmt::format("{}: {} is memory of another device, {}", device.name(), data,
                           facts.device == nullptr ? "which does not start" : facts.device->name())};
}

}  // namespace

Status compare_call_memory(const CallBuffer& buffer, const CallBuffer& other, const Stream* stream) {
  const auto refused = [](std::string text) { return Error{ErrorCode::InvalidArgument, std::move(text), -1}; };
  const Device* devices[] = {nullptr, nullptr};
  const CallBuffer* const buffers[] = {&buffer, &other};
  for (int i = 0; i < 2; ++i) {
    const PointerFacts facts = facts_of(buffers[i]->data);
    if (facts.kind != MemoryKind::Device) continue;
    devices[i] = facts.device;
    const std::string text =
        fmt::format("{} = {} is memory of {}", buffers[i]->name, buffers[i]->data,
                    facts.device == nullptr ? "a device that does not start" : facts.device->name());
    if (facts.device == nullptr) return refused(text);
    if (stream != nullptr && &stream->device() != facts.device) {
      return refused(fmt::format("{}, stream is one of {}", text, stream->device().name()));
    }
  }
  if (devices[0] == nullptr || devices[1] == nullptr || devices[0] == devices[1]) return {};
  return refused(fmt::format("{} = {} is memory of {}, {} = {} of {}", buffer.name, buffer.data, devices[0]->name(),
                             other.name, other.data, devices[1]->name()));
}

Status check_inside(const CallBuffer& buffer, std::size_t bytes) {
  const PointerFacts facts = facts_of(buffer.data);
  if (facts.kind != MemoryKind::Device || facts.begin == nullptr) return {};
  return check_end(fmt::format("{} in memory of {}", buffer.name, facts.device->name()), facts, buffer.data, bytes);
}

Result<CopyEnds> check_copy(const Device& device, const void* target, const void* source, std::size_t bytes) {
  if (target == nullptr || source == nullptr) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{} device: copy of {} bytes {} null", device.name(), bytes,
                                                         target == nullptr ? "to" : "from")};
  }
  const CopyEnds ends{facts_of(target), facts_of(source)};
  WREATH_TRY(check_range(device, ends.target, target, bytes));
  WREATH_TRY(check_range(device, ends.source, source, bytes));
  return ends;
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
