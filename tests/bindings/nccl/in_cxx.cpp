// A program in C++ that uses nccl.h only: two ranks of one thread add.
#include <nccl.h>

#include <cstdio>
#include <vector>

int main() {
  std::vector<ncclComm_t> communicators(2);
  std::vector<float> values(1000, 1.0F);
  std::vector<std::vector<float>> sums(2, values);
  bool well = ncclCommInitAll(communicators.data(), 2, nullptr) == ncclSuccess && ncclGroupStart() == ncclSuccess;
  for (std::size_t rank = 0; rank < 2 && well; ++rank) {
    well = ncclAllReduce(values.data(), sums[rank].data(), values.size(), ncclFloat, ncclSum, communicators[rank],
                         nullptr) == ncclSuccess;
  }
  well = well && ncclGroupEnd() == ncclSuccess;
  for (const auto& sum : sums) well = well && sum == std::vector<float>(1000, 2.0F);
  for (const ncclComm_t communicator : communicators) well = ncclCommDestroy(communicator) == ncclSuccess && well;
  std::puts(well ? "in C++: 2 ranks add" : ncclGetLastError(nullptr));
  return well ? 0 : 1;
}
