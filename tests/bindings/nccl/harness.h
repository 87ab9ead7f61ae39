// Gives the programs of this folder expectations, and ranks as processes, as threads, or all on one thread.
#pragma once

#include <nccl.h>
#include <stdio.h>
#include <string.h>

enum { kMostRanks = 8 };

// The ranks that one thread drives: comm[i] is rank me[i] of `ranks`.
typedef struct {
  int ranks;
  int count;
  int me[kMostRanks];
  ncclComm_t comm[kMostRanks];
  // True if every thread drives exactly one rank.
  int alone;
  // NULL means that ncclCommInitAll made the communicators.
  const ncclUniqueId* id;
} Local;

int failures(void);
void fail(const char* file, int line, const char* text);

#define EXPECT(condition)                                   \
  do {                                                      \
    if (!(condition)) fail(__FILE__, __LINE__, #condition); \
  } while (0)
#define EXPECT_OK(call) EXPECT((call) == ncclSuccess)
// Expects a refusal with a sentence that holds `words`.
#define EXPECT_REFUSED(code, words, call)                    \
  do {                                                       \
    EXPECT((call) == (code));                                \
    EXPECT(strstr(ncclGetLastError(NULL), (words)) != NULL); \
  } while (0)

// Makes a call on every rank of this thread. `body` is an expression of `i`, the index into Local. Several ranks call
// in a group.
#define EACH(local, body)                                     \
  do {                                                        \
    if ((local)->count > 1) EXPECT_OK(ncclGroupStart());      \
    for (int i = 0; i < (local)->count; ++i) EXPECT_OK(body); \
    if ((local)->count > 1) EXPECT_OK(ncclGroupEnd());        \
  } while (0)

typedef void (*Body)(Local*);

// Runs `body` with communicators that it must leave usable, and destroys them. The mode "processes" or "threads" gives
// each rank one of them. "pairs" gives a thread two ranks, "group" uses one thread, and "all" one thread and
// ncclCommInitAll. "host" runs half of the ranks as processes, and the other half runs on another host. Returns the
// exit code of the program.
int run_ranks(const char* mode, int ranks, Body body);
// Runs ranks as processes, as run_ranks() does. Each process first calls `before` with its rank.
int run_processes(int ranks, void (*before)(int rank), Body body);

void destroy(Local* local);
// Polls until the communicator is no longer in progress, up to 100 s. Returns the last answer.
ncclResult_t poll_until_done(ncclComm_t comm);
long long now_ms(void);
