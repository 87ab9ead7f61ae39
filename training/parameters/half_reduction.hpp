// This file declares the communication of gradients and weights as words of 2 bytes.
#pragma once

#include <cstdint>
#include <span>

#include "training/compute/convert.hpp"
#include "training/compute/memory.hpp"
#include "training/parameters/layout.hpp"

namespace wreath::training {

using HalfWords = std::span<std::uint16_t>;

// Returns the call of Group::call_of for words of a 16-bit format.
Call half_call(DataType format, Collective collective, std::span<const std::uint16_t> input, HalfWords output,
               const Reduction& reduction = {});

// HalfTravel tells how a bucket is reduced.
struct HalfTravel {
  DataType format;
  Group& group;
  Reduction reduction;
  // A share of one part means all_reduce; one of as many parts as the group has ranks means reduce_scatter.
  Share share;
};

// A bucket's reduction over a group, in flight, by a rounded copy (MemoryTag::Buckets) of half the bytes of float32.
// The library adds in float32 and rounds the result once. In a group of one nothing is rounded. It is move-only.
class HalfReduction {
 public:
  HalfReduction() = default;
  // Starts the reduction. The bucket lives until finish() has returned or thrown.
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
