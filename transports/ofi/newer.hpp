// Has what headers of libfabric 1.17 lack. Libraries keep these numbers and layouts, so that one build uses any of
// them.
#pragma once

#include <rdma/fabric.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace wreath {

// From this version on an endpoint can be kept from calling CUDA. Such a call may wait for a kernel, which waits here.
inline constexpr std::uint32_t kOfiCudaVersion = FI_VERSION(1, 18);
inline constexpr int kOfiCudaApiPermitted = 10;  // FI_OPT_CUDA_API_PERMITTED: a bool

// From this version on memory is registered by its dma-buf, for those who ask for this version.
inline constexpr std::uint32_t kOfiDmaBufVersion = FI_VERSION(1, 20);
inline constexpr std::uint64_t kOfiDmaBufFlag = std::uint64_t{1} << 40;  // FI_MR_DMABUF
// fi_mr_attr::mr_iov points to this with that flag (fi_mr_dmabuf).
struct OfiDmaBuf {
  int descriptor;
  std::uint64_t offset;
  std::size_t bytes;
  std::byte* base;  // puts name the first byte as `base` + `offset`
};

// A structure of fabric.h with room for what later libraries read or write behind it.
template <typename T>
struct OfiNewer {
  T known{};
  std::array<std::uint64_t, 8> more{};
};

}  // namespace wreath
