// Stands for libnccl.so.2. Its calls do nothing, which takes no time. FAKE_NCCL_VERSION sets its version;
// FAKE_NCCL_REFUSES makes it refuse.
#include <cstddef>
#include <cstdlib>

struct FakeId {
  char internal[128];
};

extern "C" {

int ncclGetVersion(int* version) {
  const char* const asked = std::getenv("FAKE_NCCL_VERSION");
  *version = asked == nullptr ? 23007 : std::atoi(asked);
  return 0;
}
int ncclGetUniqueId(FakeId* id) { return *id = {}, 0; }
int ncclCommInitRank(void** communicator, int, FakeId, int rank) {
  const char* const shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (std::getenv("FAKE_NCCL_REFUSES") != nullptr || shared == nullptr || *shared != '1') return 5;
  *communicator = new int(rank);
  return 0;
}
int ncclCommDestroy(void* communicator) {
  delete static_cast<int*>(communicator);
  return 0;
}
int ncclAllReduce(const void* input, void* output, std::size_t, int dtype, int op, void* communicator, void* stream) {
  const bool right = input != nullptr && output != nullptr && (dtype == 7 || dtype == 9) && op == 0;
  return right && communicator != nullptr && stream != nullptr ? 0 : 4;
}
const char* ncclGetErrorString(int result) { return result == 5 ? "invalid usage" : "invalid argument"; }

}  // extern "C"
