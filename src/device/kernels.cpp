// Hands the kernels of programs to the devices that run them.
#include <string>

#include "src/device/library_device.hpp"
#include "wreath/kernel.hpp"

namespace wreath {
namespace {

LibraryDevice& library_device(Device& device) { return static_cast<LibraryDevice&>(device); }

}  // namespace

Status launch(Stream& stream, const Kernel& kernel, const Grid& grid) {
  if (grid.blocks < 1 || grid.threads < 1) {
    return Error{ErrorCode::InvalidArgument, std::string(kernel.name) + ": a grid of " + std::to_string(grid.blocks) +
                                                 " blocks of " + std::to_string(grid.threads) + " threads"};
  }
  return library_device(stream.device()).launch(stream, kernel, grid);
}

Status add_cuda_work(Stream& stream, const std::function<Status(void* cuda_stream)>& add) {
  return library_device(stream.device()).add_cuda_work(stream, add);
}

Result<int> resident_blocks(Device& device, const Kernel& kernel, int threads) {
  return library_device(device).resident_blocks(kernel, threads);
}

std::byte* address_in_kernels(Device& device, const void* data) {
  const auto* const at = static_cast<const std::byte*>(data);
  const PointerFacts facts = facts_of(data);
  if (facts.kind == MemoryKind::Device && facts.device == &device) return library_device(device).address_in_kernels(at);
  return const_cast<std::byte*>(at);
}

}  // namespace wreath
