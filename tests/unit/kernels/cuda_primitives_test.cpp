// The CUDA primitives, compiled for the host with a block of threads that take turns: the same bits as the reference.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"

// Words of CUDA that the primitives use. Lanes of a block run one after the other: they do not interact.
#define __device__
struct Dim {
  unsigned x;
};
static thread_local Dim threadIdx{0};
static constexpr Dim blockDim{7};
struct __attribute__((may_alias, aligned(16))) uint4 {
  std::uint32_t words[4];
};
inline int __clz(int value) { return std::countl_zero(static_cast<unsigned>(value)); }
inline float __uint_as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
using std::isnan;

#include "kernels/cuda/primitives.cuh"

namespace wreath {
namespace {

template <typename Body>
void run_block(Body body) {
  for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) body();
}

std::uint32_t draw(std::mt19937& random) {
  constexpr std::uint32_t kSpecial[] = {0, 0x80000000, 0x7f800000, 0xff800000, 0x7fc12345, 0xff812345, 1, 0x7f7fffff};
  return random() % 2 == 0 ? static_cast<std::uint32_t>(random()) : kSpecial[random() % std::size(kSpecial)];
}

// Memory aligned to 16 bytes; sources start `offset` bytes in.
struct Inputs {
  Inputs(int k, std::size_t elements, std::size_t offset) : memory(static_cast<std::size_t>(k)) {
    std::mt19937 random(static_cast<unsigned>(k * 1000) + static_cast<unsigned>(elements));
    for (auto& words : memory) {
      words.resize((offset + elements * 4) / 16 + 1);
      for (std::size_t i = 0; i < elements; ++i) {
        const std::uint32_t bits = draw(random);
        std::memcpy(reinterpret_cast<std::byte*>(words.data()) + offset + 4 * i, &bits, 4);
      }
      sources.push_back(reinterpret_cast<const std::byte*>(words.data()) + offset);
    }
  }
  std::vector<std::vector<uint4>> memory;
  std::vector<const std::byte*> sources;
};

template <typename T>
void expect_reduces(DataType dtype, int k, std::size_t elements, std::size_t offset) {
  const Inputs inputs(k, elements, offset);
  std::vector<std::byte> expected(elements * 4 + 16);
  combine_reference(arithmetic(dtype, ReduceOp::Sum, k), expected.data(), Form::Data, inputs.sources.data(), k, {},
                    elements);
  std::vector<uint4> output(elements / 4 + 1);
  const BlockWork work{BlockWork::Kind::Reduce, reinterpret_cast<std::byte*>(output.data()), inputs.sources.data(), k,
                       elements};
  run_block([&] { block_reduce<T>(work); });
  ASSERT_EQ(0, std::memcmp(output.data(), expected.data(), elements * 4))
      << name(dtype) << " k " << k << " elements " << elements << " offset " << offset;
}

TEST(CudaPrimitives, ReduceLikeTheReference) {
  for (const int k : {2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 64, 257}) {
    for (const std::size_t elements : {0u, 1u, 3u, 4u, 5u, 27u, 28u, 29u, 130u}) {
      for (const std::size_t offset : {0u, 4u}) {
        ASSERT_NO_FATAL_FAILURE(expect_reduces<float>(DataType::Float32, k, elements, offset));
        ASSERT_NO_FATAL_FAILURE(expect_reduces<std::uint32_t>(DataType::Int32, k, elements, offset));
      }
    }
  }
}

TEST(CudaPrimitives, CopyEveryByteAtAnyAlignment) {
  for (const std::size_t bytes : {0u, 1u, 15u, 16u, 17u, 112u, 1000u}) {
    for (const std::size_t offset : {0u, 1u, 4u}) {
      const Inputs inputs(1, bytes / 4 + 1, offset);
      std::vector<uint4> output(bytes / 16 + 2);
      auto* target = reinterpret_cast<std::byte*>(output.data());
      target[bytes] = std::byte{0xa5};
      const BlockWork work{BlockWork::Kind::Copy, target, inputs.sources.data(), 1, bytes};
      run_block([&] { block_copy(work); });
      EXPECT_EQ(0, std::memcmp(target, inputs.sources[0], bytes)) << bytes << " at " << offset;
      EXPECT_EQ(target[bytes], std::byte{0xa5});
    }
  }
}

}  // namespace
}  // namespace wreath
