// A test controls the fake libcuda.so.1 with these functions: it asks for errors, and gives kernels a host function.
// They are found by dlsym in the loaded library, so that a test links no CUDA.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <type_traits>

namespace wreath {

// These results of the driver concern tests alone; src/device/cuda/abi.hpp has those that the library tells apart.
inline constexpr int kCudaInvalidValue = 1;
inline constexpr int kCudaOutOfMemory = 2;
inline constexpr int kCudaNoDevice = 100;
inline constexpr int kCudaNotFound = 500;

namespace test {

// Runs one grid. It is called once, with the kernel's parameters.
using FakeKernel = void (*)(unsigned blocks, unsigned threads, void** parameters);

struct FakeCuda {
  // Makes the next `times` calls of `function` ("cuMemAlloc") return `result`.
  void (*fail)(const char* function, int result, int times);
  // Makes all work that streams hold or get fail with `result` from now on. With 0 the device works again.
  void (*lose)(int result);
  // Gives modules a kernel of this name, whose parameter has `bytes` bytes.
  void (*set_kernel)(const char* name, FakeKernel kernel, std::size_t bytes);
  // Sets the answer of cuDeviceGetAttribute for all devices.
  void (*set_attribute)(int attribute, int value);
  // Returns how kernels of `device` may use the byte at `data`. 0 means not at all, 1 read it, 2 also write it, 3 like
  // memory of the device itself.
  int (*reaches)(int device, const void* data);
  // Counts the memory, mappings, registrations, streams and events that were made and not freed yet.
  int (*alive)();
  // Counts the calls of cuPointerGetAttributes.
  int (*pointers_asked)();
  // Says whether a thread of the program captures. Then no other thread may make calls that wait or allocate, unless it
  // says that they are not part of the capture.
  void (*program_captures)(int does);
  // Lets this process open a handle that it exported itself. The real driver refuses that; the test of a handle needs
  // it in one process.
  void (*other_process)(int is);

  // Returns the functions. All are null where this process has a real driver, or none.
  static FakeCuda find() {
    FakeCuda fake{};
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return fake;
    const auto set = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    };
    set("fake_cuda_fail", fake.fail);
    set("fake_cuda_lose", fake.lose);
    set("fake_cuda_set_kernel", fake.set_kernel);
    set("fake_cuda_set_attribute", fake.set_attribute);
    set("fake_cuda_reaches", fake.reaches);
    set("fake_cuda_alive", fake.alive);
    set("fake_cuda_pointers_asked", fake.pointers_asked);
    set("fake_cuda_program_captures", fake.program_captures);
    set("fake_cuda_other_process", fake.other_process);
    ::dlclose(library);
    return fake;
  }
  explicit operator bool() const { return fail != nullptr; }
};

}  // namespace test
}  // namespace wreath
