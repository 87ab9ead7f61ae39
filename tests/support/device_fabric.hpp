// Lets the stand-in for libfabric take memory of devices, which the real provider here does not. That one reads it as
// memory of the host. It writes into memory beside it, from where writes reach the device's when they are flushed.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_rma.h>

#include <cstddef>
#include <cstdint>

#include "tests/support/shuffled_fabric.hpp"

namespace wreath::test {

// Sets how devices are taken, before adapters are opened.
void take_devices(const FabricDevices& devices);
// Returns the version that the library says, which may be newer than the real one.
std::uint32_t version_of(std::uint32_t real_version);

// Hides what the real library does not know of a question, and adds it to the answer.
class DeviceQuestion {
 public:
  // Notes the version that is asked for.
  explicit DeviceQuestion(std::uint32_t version);
  // Takes the question, whose properties are a copy. The real library then has an answer.
  void hide(fi_info* hints);
  void add_to(fi_info* answers) const;

 private:
  bool asked_ = false;
};

// Sets an option of an endpoint that newer libraries have. Returns -FI_ENOPROTOOPT for another one.
int set_new_option(int option, const void* value, bool& forbids_cuda);
// Fills what newer libraries write behind the entry of a failure, for those who asked for their version.
void fill_behind(fi_cq_err_entry& entry);

// Registers memory of a device, whose user must have all rights to do so.
int register_device_memory(fi_ops_mr& real, fid* domain, const fi_mr_attr& attributes, std::uint64_t flags,
                           fid_mr** region);
// Lets a write read memory of a device by the real provider's description. Does nothing for the host's.
void read_from_device(iovec& piece, void*& description, std::uint64_t flags);
// Notes a write that is submitted, where its target is memory of a device.
void begin_device_write(const fi_rma_iov& target, std::uint64_t word);
// Forgets it, as the provider did not take it.
void forget_device_write(const fi_rma_iov& target, std::uint64_t word);
// Notes that the bytes of a write are here, which told `word` at an adapter.
void end_device_write(const fid* domain, std::uint64_t word);
// Notes that an adapter reads `source`, which its user must have the right to. What had come over that adapter before
// is seen by the device when the read has ended. Returns false where the read never ends.
bool begin_device_read(const fid* domain, const fi_rma_iov& source, const void* context);
// Returns false where it was such a read, and has failed.
bool end_device_read(const void* context);
void behave_at_device_reads(DeviceReads reads);
// Counts the reads that have ended well.
std::size_t count_device_reads();
// Lets devices see all that has come. Returns how many writes that were.
std::size_t flush_device_writes();

}  // namespace wreath::test
