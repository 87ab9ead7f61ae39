// Holds integers in memory of the host device, and calls that sum them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wreath/call.hpp"
#include "wreath/device.hpp"

namespace wreath::test {

// Holds elements in memory of the host device. A rank frees no such memory while peers go on: that would wait for their
// kernels.
class Elements {
 public:
  explicit Elements(std::vector<std::int32_t> values)
      : memory_(host_device().allocate(values.size() * sizeof(std::int32_t)).value()), count_(values.size()) {
    set(values);
  }
  void set(const std::vector<std::int32_t>& values) {
    host_device().copy(memory_.data(), values.data(), count_ * sizeof(std::int32_t)).value();
  }
  std::int32_t* data() const { return reinterpret_cast<std::int32_t*>(memory_.data()); }
  std::vector<std::int32_t> get() const {
    std::vector<std::int32_t> values(count_);
    host_device().copy(values.data(), memory_.data(), count_ * sizeof(std::int32_t)).value();
    return values;
  }
  Call call(Stream* stream = nullptr) const {
    Call call;
    call.collective = Collective::AllReduce;
    call.dtype = DataType::Int32;
    call.input = memory_.data();
    call.output = memory_.data();
    call.count = count_;
    call.stream = stream;
    return call;
  }

 private:
  DeviceMemory memory_;
  std::size_t count_;
};

}  // namespace wreath::test
