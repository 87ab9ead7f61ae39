// Gradients and weights on their way as words of 2 bytes.
#pragma once

#include <cstdint>
#include <span>

#include "training/compute/convert.hpp"
#include "training/compute/memory.hpp"
#include "training/parameters/layout.hpp"

namespace wreath::training {

using HalfWords = std::span<std::uint16_t>;

// As Group::call_of, of words of a 16-bit format.
Call half_call(DataType format, Collective collective, std::span<const std::uint16_t> input, HalfWords output,
               const Reduction& reduction = {});

// HalfTravel says what reduces a bucket.
struct HalfTravel {
  DataType format;
  Group& group;
  Reduction reduction;
  Share share;  // of one part: all_reduce; of as many as the group has ranks: reduce_scatter
};

// A bucket's reduction over a group, in flight, by a rounded copy (MemoryTag::Buckets): half the bytes of float32. The
// library adds in float32 and rounds the result once. Of a group of one nothing is rounded. Move-only.
class HalfReduction {
 public:
  HalfReduction() = default;
  // The bucket lives until finish() has returned or thrown.
  HalfReduction(std::span<float> bucket, const HalfTravel& travel, MemoryAccounting& memory);
  // Returns when the share of the bucket holds the result. Throws Exception where the call failed.
  void finish();

 private:
  DataType format_ = DataType::BFloat16;
  std::span<float> result_;
  Buffer<std::uint16_t> words_;
  HalfWords result_words_;
  Pending pending_;
};

}  // namespace wreath::training
