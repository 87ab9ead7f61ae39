// Makes all other threads pass a memory fence of one thread, so that a side that runs often needs none of its own.
//
// Two sides each store, then look at what the other stored. One side may leave out the fence in between if the other
// calls fence_others() instead of its own fence. The first side's process must have registered.
//
// Linux (6.18, at least) leaves out a processor that ran the process before it registered and nothing but kernel
// threads since: such a processor keeps what it knows of the process. So the side that calls fence_others() must look
// once more a moment later, when stores have left the other side's store buffer, before it waits for long.
#pragma once

namespace wreath {

// Returns whether this kernel has such fences (Linux's membarrier, global expedited). It asks the kernel once.
bool can_fence_others() noexcept;

// Makes fence_others() of any process reach this process's threads. It needs about 10 ms in a process with threads. It
// does nothing the second time, or where the kernel lacks such fences.
void register_for_fences() noexcept;
// Returns whether register_for_fences() has succeeded.
bool registered_for_fences() noexcept;

// Makes a full fence here, and in every running thread of the processes that have registered. It takes some
// microseconds.
void fence_others() noexcept;

// Keeps the compiler, not the processor, from moving loads before stores. The side that leaves out its fence calls this
// instead.
void compiler_fence() noexcept;

}  // namespace wreath
