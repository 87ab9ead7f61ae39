// This file declares files of checkpoints, which are read and written by range, with errors that name the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "wreath/result.hpp"

namespace wreath::training {

// An open file. It is move-only. Any thread may read and write ranges of it at the same time.
class File {
 public:
  File() = default;
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(path_, other.path_);
    return *this;
  }
  ~File();

  static Result<File> open_to_read(const std::string& path);
  // Opens a file that exists.
  static Result<File> open_to_write(const std::string& path);
  // Creates a file that does not exist yet, of `bytes` bytes, all zero.
  static Result<File> create(const std::string& path, std::uint64_t bytes);

  const std::string& path() const noexcept { return path_; }
  Result<std::uint64_t> bytes() const;
  // Both move all of the bytes, or return an error.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;
  Status write(std::uint64_t offset, std::span<const std::byte> bytes) const;
  // Returns once the file's content would outlive a power failure.
  Status sync() const;

 private:
  static Result<File> open(const std::string& path, int flags, const char* purpose);
  int descriptor_ = -1;
  std::string path_;
};

// Returns once the names in a folder would outlive a power failure.
Status sync_folder(const std::string& folder);

// Makes `folder`/`name` with this content, synced.
Status write_text(const std::string& folder, const std::string& name, std::string_view text);
// Returns the text of a regular file of at most `maximum_bytes`.
Result<std::string> read_text(const std::string& path, std::uint64_t maximum_bytes);

// Returns the error of a call of the operating system that has just failed: "PATH: cannot be PURPOSE: reason".
Error system_error(const std::string& path, std::string_view purpose);

}  // namespace wreath::training
