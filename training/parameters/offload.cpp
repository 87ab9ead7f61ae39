// This file maps files that hold training state while a job runs.
#include "training/parameters/offload.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "wreath/result.hpp"

namespace wreath::training {

namespace {

[[noreturn]] void fail(const std::string& folder, const char* what, int error) {
  throw Exception({ErrorCode::System, "offload to " + folder + ": " + what + ": " + std::strerror(error)});
}

// Returns a new file whose name is already removed.
int open_nameless(const std::string& folder) {
  std::string path = folder + "/wreath-offload-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) fail(folder, "no file can be made", errno);
  unlink(path.c_str());
  return file;
}

// Returns the whole pages of [begin, begin + bytes).
std::pair<std::size_t, std::size_t> pages_within(std::size_t begin, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t first = (begin + page - 1) / page * page;
  const std::size_t end = (begin + bytes) / page * page;
  return {first, end > first ? end - first : 0};
}

}  // namespace

MappedFile::MappedFile(const std::string& folder, std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const int file = open_nameless(folder);
  const int reserved = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* mapped = reserved == 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int error = reserved == 0 ? errno : reserved;
  close(file);
  if (mapped == MAP_FAILED) fail(folder, (std::to_string(bytes) + " bytes cannot be had").c_str(), error);
  data_ = static_cast<std::byte*>(mapped);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

void MappedFile::read_ahead(std::size_t begin, std::size_t bytes) const noexcept {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t first = begin / page * page;
  if (bytes > 0) madvise(data_ + first, begin + bytes - first, MADV_WILLNEED);
}

void MappedFile::let_go(std::size_t begin, std::size_t bytes) const noexcept {
  const auto [first, length] = pages_within(begin, bytes);
  if (length == 0) return;
  msync(data_ + first, length, MS_ASYNC);
  // The mapping is shared, so the page cache keeps the written data.
  madvise(data_ + first, length, MADV_DONTNEED);
}

OffloadableBuffer::OffloadableBuffer(MemoryAccounting& memory, MemoryTag tag, std::size_t count,
                                     const std::string& folder) {
  if (folder.empty()) {
    memory_ = Buffer<float>(memory, tag, count);
    span_ = memory_.span();
  } else {
    file_ = MappedFile(folder, count * sizeof(float));
    span_ = {reinterpret_cast<float*>(file_.data()), count};
  }
}

std::size_t OffloadableBuffer::offset_of(std::span<const float> part) const noexcept {
  return static_cast<std::size_t>(part.data() - span_.data()) * sizeof(float);
}

void OffloadableBuffer::read_ahead(std::span<const float> part) const noexcept {
  if (file_.data() != nullptr) file_.read_ahead(offset_of(part), part.size_bytes());
}

void OffloadableBuffer::let_go(std::span<const float> part) const noexcept {
  if (file_.data() != nullptr) file_.let_go(offset_of(part), part.size_bytes());
}

}  // namespace wreath::training
