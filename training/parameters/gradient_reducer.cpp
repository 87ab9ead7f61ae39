// This file has the functions that all reducers of gradients share.
#include "training/parameters/gradient_reducer.hpp"

namespace wreath::training {

void sum_earlier(const Layout& layout, std::size_t begin, std::span<float> flat, const DataParallelGroups& groups) {
  const ElementRange partial = layout.partial();
  const ElementRange tied = layout.tied();
  if (partial.count > 0) groups.tensor.all_reduce(flat.subspan(partial.begin - begin, partial.count));
  if (tied.count > 0) groups.embedding.all_reduce(flat.subspan(tied.begin - begin, tied.count));
}

void set_gradients(const Bucket& bucket, std::span<float> memory) {
  for (const Slot& slot : bucket.slots) slot.parameter->gradient = memory.empty() ? memory : slot.of(memory);
}

}  // namespace wreath::training
