// Owns an object of libfabric, which is closed with its owner.
#pragma once

#include <rdma/fabric.h>

#include <memory>

namespace wreath {

struct OfiClose {
  template <typename T>
  void operator()(T* object) const {
    fi_close(&object->fid);
  }
};
template <typename T>
using OfiHandle = std::unique_ptr<T, OfiClose>;

}  // namespace wreath
