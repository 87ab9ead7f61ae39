// A memory fence that one thread makes all others pass, so that a side that runs often needs none of its own.
//
// Of two sides that each store and then look at what the other stored, one may leave out the fence in between if the
// other calls fence_others() in the place of its own, and the first one's process has registered.
#pragma once

namespace wreath {

// Whether this kernel has it (Linux's membarrier, global expedited). Asks once.
bool can_fence_others() noexcept;

// Makes this process one whose threads fence_others() of any process reaches; needs about 10 ms in a process with
// threads. Does nothing the second time, and nothing where the kernel has it not.
void register_for_fences() noexcept;
// Whether that is done.
bool registered_for_fences() noexcept;

// A full fence here, and in every running thread of the processes that have registered. Some microseconds.
void fence_others() noexcept;

// Keeps the compiler, not the processor, from moving loads before stores: what is left of the fence on the other side.
void compiler_fence() noexcept;

}  // namespace wreath
