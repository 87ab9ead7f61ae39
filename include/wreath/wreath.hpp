// Wreath is a library for collective communication. A program starts here: it needs this header and nothing else.
//
//   communicator.hpp  ranks that act together: all_reduce, abort         types.hpp   dtypes, operators
//   unique_id.hpp     how ranks meet                                     result.hpp  errors as values
//   work.hpp          an operation in flight                             memory.hpp  memory peers can map
//   group.hpp         calls launched as one                              call.hpp    a call as a value
//   device.hpp        memory and streams of processors                   environment.hpp  what a launcher says
//
// Extensions need further headers: schedule.hpp and algorithm.hpp (a new algorithm), fifo.hpp and transport.hpp (a
// new wire), kernel.hpp (kernels of a device).
#pragma once

#include "wreath/call.hpp"
#include "wreath/communicator.hpp"
#include "wreath/device.hpp"
#include "wreath/environment.hpp"
#include "wreath/group.hpp"
#include "wreath/memory.hpp"
#include "wreath/result.hpp"
#include "wreath/types.hpp"
#include "wreath/unique_id.hpp"
#include "wreath/work.hpp"
