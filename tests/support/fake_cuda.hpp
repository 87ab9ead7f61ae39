// What a test does with the driver that stands for libcuda.so.1: ask for errors, and give kernels a host function.
// Found by dlsym in the loaded library, so that a test links no CUDA.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <type_traits>

namespace wreath::test {

// Of one grid: called once, with the kernel's parameters.
using FakeKernel = void (*)(unsigned blocks, unsigned threads, void** parameters);

struct FakeCuda {
  // The next `times` calls of `function` ("cuMemAlloc") return `result`.
  void (*fail)(const char* function, int result, int times);
  // All work that streams hold or get fails with `result` from now on; 0: the device works again.
  void (*lose)(int result);
  // What modules have under `name`; its parameter has `bytes` bytes.
  void (*set_kernel)(const char* name, FakeKernel kernel, std::size_t bytes);
  // What cuDeviceGetAttribute says of all devices.
  void (*set_attribute)(int attribute, int value);
  // What kernels of `device` may do with the byte at `data`: 0 nothing, 1 read it, 2 also write it, 3 as of its own
  // memory.
  int (*reaches)(int device, const void* data);
  // Memory, mappings, registrations, streams and events that were made and not yet freed.
  int (*alive)();
  // How often cuPointerGetAttributes was asked.
  int (*pointers_asked)();
  // Whether a thread of the program captures so that no other may make calls that wait or allocate, unless it says that
  // they are none of the capture's.
  void (*program_captures)(int does);
  // The real driver opens no handle in the process that exported it; the test of a handle needs it in one process.
  void (*other_process)(int is);

  // All null where the driver of this process is a real one, or none.
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

}  // namespace wreath::test
