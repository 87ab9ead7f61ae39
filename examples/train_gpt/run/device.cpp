// This file finds devices by name.
#include "examples/train_gpt/run/device.hpp"

#include <charconv>
#include <cstdlib>

namespace wreath::gpt {

namespace {

constexpr std::string_view kNumbered = "cuda:";

// Returns the number for "cuda" and "cuda:N", or -1 for other names.
int number_of(const std::string& name, const EnvironmentJob& job, int count) {
  if (name == "cuda") return (job.local_rank >= 0 ? job.local_rank : job.rank) % count;
  if (!name.starts_with(kNumbered)) return -1;
  int number = -1;
  const char* const end = name.data() + name.size();
  const auto [last, error] = std::from_chars(name.data() + kNumbered.size(), end, number);
  return error == std::errc() && last == end ? number : -1;
}

}  // namespace

Result<Device*> find_device(const std::string& name, const EnvironmentJob& job) {
  if (name.empty()) return static_cast<Device*>(nullptr);
  if (name == "host") return &host_device();
  if (number_of(name, job, 1) < 0) {
    return Error{ErrorCode::InvalidArgument, "--device " + name + ": must be cuda, cuda:N or host"};
  }
  // Gradients are reduced in streams beside the layers'. All streams get queues, and no kernel is loaded while another
  // waits.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  const Result<int> count = cuda_devices();
  if (!count) return Error{count.error().code, "--device " + name + ": " + count.error().message};
  const Result<Device*> device = cuda_device(number_of(name, job, *count));
  if (!device) return Error{device.error().code, "--device " + name + ": " + device.error().message};
  return *device;
}

}  // namespace wreath::gpt
