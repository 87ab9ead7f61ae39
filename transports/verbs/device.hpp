// An RDMA adapter that is open. The process opens each once: its communicators share the context, the protection domain
// and registrations. The adapter's asynchronous events come once, too, and are sorted out here.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/dma_buf.hpp"
#include "src/put/library_descriptor.hpp"
#include "src/put/sentences.hpp"
#include "src/topology/rdma_ports.hpp"
#include "transports/verbs/library.hpp"
#include "transports/verbs/settings.hpp"

namespace wreath {

// Owns an object of the library, whose functions that destroy return an error number.
template <typename T>
using VerbsHandle = std::unique_ptr<T, int (*)(T*)>;

// A device tells one communicator this of a port and its queue pairs. Queue pairs and completion queues name it as
// their context. The device guards it.
struct PortNews {
  int port = 0;
  Sentences sentences;
  std::uint32_t disturbances = 0;  // after each, connections may be lost
};

class VerbsDevice {
 public:
  // Returns the open device of that name. Unavailable says why it cannot be opened, and what to do.
  static Result<std::shared_ptr<VerbsDevice>> open(const VerbsLibrary& library, ibv_device& device);
  VerbsDevice(const VerbsDevice&) = delete;
  VerbsDevice& operator=(const VerbsDevice&) = delete;

  const VerbsLibrary& library() const { return library_; }
  const std::string& name() const { return name_; }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* domain() const { return domain_.get(); }
  const ibv_device_attr& limits() const { return limits_; }
  std::uint32_t inline_bytes() const { return inline_bytes_; }

  // Asks for the present state of a port, and for its GIDs.
  Result<PortFacts> port(int number) const;
  // System names the bytes, the reason and the way out.
  Result<ibv_mr*> register_memory(std::span<std::byte> memory, unsigned access) const;
  // Registers memory of a device, which requests name from `address` on. Unavailable gives the reason.
  Result<ibv_mr*> register_memory(const DmaBuf& memory, const std::byte* address, unsigned access) const;

  void subscribe(PortNews& news);
  void unsubscribe(const PortNews& news);
  // Returns the next sentence of `news`, after reading the events that have come.
  std::optional<std::string> next_sentence(PortNews& news);
  std::uint32_t disturbances(const PortNews& news);

 private:
  VerbsDevice(const VerbsLibrary& library, ibv_context* context);
  Status prepare();
  void find_inline_bytes();
  std::vector<GidEntry> read_gids(int number, const ibv_port_attr& port) const;
  void read_events();
  void sort_out(const ibv_async_event& event);

  const VerbsLibrary& library_;
  std::string name_;
  VerbsHandle<ibv_context> context_;
  VerbsHandle<ibv_pd> domain_;
  LibraryDescriptor command_descriptor_;
  LibraryDescriptor event_descriptor_;
  ibv_device_attr limits_{};
  std::uint32_t inline_bytes_ = 0;
  int node_ = -1;
  std::mutex mutex_;
  std::vector<PortNews*> subscribers_;
};

// An open device and the number of its port that a rank uses.
struct ChosenPort {
  std::shared_ptr<VerbsDevice> device;
  PortFacts facts;
};

// Opens the devices that the settings admit, and chooses a rank's ports. The error says in words why there is none, and
// what to do.
Result<std::vector<ChosenPort>> find_ports(const VerbsSettings& settings, int rank);

}  // namespace wreath
