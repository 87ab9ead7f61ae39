// Releases the interpreter's lock, where this thread has it, for a wait for threads that may want it.
#pragma once

#include <Python.h>

namespace wreath_torch {

class ReleasedGil {
 public:
  ReleasedGil() : state_(Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr) {}
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;
  ~ReleasedGil() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* state_;
};

}  // namespace wreath_torch
