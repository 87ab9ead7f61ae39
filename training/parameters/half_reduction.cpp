// This file rounds a bucket, reduces it and widens the result.
#include "training/parameters/half_reduction.hpp"

namespace wreath::training {

Call half_call(DataType format, Collective collective, std::span<const std::uint16_t> input, HalfWords output,
               const Reduction& reduction) {
  Call call;
  call.collective = collective;
  call.dtype = format;
  call.reduction = reduction;
  call.input = reinterpret_cast<const std::byte*>(input.data());
  call.output = reinterpret_cast<std::byte*>(output.data());
  call.count = collective == Collective::AllGather ? input.size() : output.size();
  return call;
}

HalfReduction::HalfReduction(std::span<float> bucket, const HalfTravel& travel, MemoryAccounting& memory)
    : format_(travel.format) {
  if (travel.group.alone()) return;
  words_ = Buffer<std::uint16_t>(memory, MemoryTag::Buckets, bucket.size(), Contents::Undefined);
  narrow(format_, bucket, words_.span());
  const bool whole = travel.share.parts == 1;
  const std::size_t count = bucket.size() / travel.share.parts;
  result_ = bucket.subspan(travel.share.part * count, count);
  result_words_ = words_.span().subspan(travel.share.part * count, count);
  pending_ = travel.group.start(half_call(format_, whole ? Collective::AllReduce : Collective::ReduceScatter,
                                          words_.span(), result_words_, travel.reduction));
}

void HalfReduction::finish() {
  pending_.wait();
  if (words_.empty()) return;
  widen(format_, result_words_, result_);
  words_ = {};
}

}  // namespace wreath::training
