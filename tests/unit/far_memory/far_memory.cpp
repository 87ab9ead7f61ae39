// Makes two mappings of one memory, and a list of what was done to it.
#include "tests/unit/far_memory/far_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "src/base/memory_order.hpp"

namespace wreath::far {
namespace {

Memory* the_memory = nullptr;

}  // namespace

Memory::Memory() {
  const int file = memfd_create("far", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, kBytes) != 0) throw std::runtime_error("no memfd");
  near_ = static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  far_ = static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_NONE, MAP_SHARED, file, 0));
  close(file);
  the_memory = this;
}

Memory::~Memory() {
  the_memory = nullptr;
  munmap(near_, kBytes);
  munmap(far_, kBytes);
}

std::vector<std::string> Memory::events() { return std::exchange(events_, {}); }

void Memory::tell_of(const std::string& event) {
  events_.push_back(event);
  if (event != "fence") return;
  for (Watched& each : watched_) std::copy_n(each.at, each.at_the_fence.size(), each.at_the_fence.begin());
}

void* Memory::reach(const void* address, const char* what) {
  const auto name = names_.find(address);
  events_.push_back(std::string(what) + " " + (name == names_.end() ? "a word" : name->second));
  for (const Watched& each : watched_) {
    if (what != std::string_view("tell")) break;
    if (!std::equal(each.at_the_fence.begin(), each.at_the_fence.end(), each.at)) events_.emplace_back("too early");
  }
  auto* at = static_cast<std::byte*>(const_cast<void*>(address));
  return at >= far_ && at < far_ + kBytes ? near_ + (at - far_) : at;
}

void* reach(const void* address, const char* what) { return the_memory->reach(address, what); }
void tell_of(const std::string& event) { the_memory->tell_of(event); }

}  // namespace wreath::far
