// What programs of this folder share: expectations, and ranks as processes, as threads, or all driven by one thread.
#pragma once

#include <nccl.h>
#include <stdio.h>
#include <string.h>

enum { kMostRanks = 8 };

// Ranks that one thread drives: comm[i] is rank me[i] of `ranks`.
typedef struct {
  int ranks;
  int count;
  int me[kMostRanks];
  ncclComm_t comm[kMostRanks];
  int alone;               // every rank is its thread's only one
  const ncclUniqueId* id;  // NULL: they came from ncclCommInitAll
} Local;

int failures(void);
void fail(const char* file, int line, const char* text);

#define EXPECT(condition)                                   \
  do {                                                      \
    if (!(condition)) fail(__FILE__, __LINE__, #condition); \
  } while (0)
#define EXPECT_OK(call) EXPECT((call) == ncclSuccess)
// A refusal with a sentence that holds `words`.
#define EXPECT_REFUSED(code, words, call)                    \
  do {                                                       \
    EXPECT((call) == (code));                                \
    EXPECT(strstr(ncclGetLastError(NULL), (words)) != NULL); \
  } while (0)

// A call of every rank here: body is an expression of `i`, the index into Local. In a group where there are several.
#define EACH(local, body)                                     \
  do {                                                        \
    if ((local)->count > 1) EXPECT_OK(ncclGroupStart());      \
    for (int i = 0; i < (local)->count; ++i) EXPECT_OK(body); \
    if ((local)->count > 1) EXPECT_OK(ncclGroupEnd());        \
  } while (0)

typedef void (*Body)(Local*);

// Runs `body` with communicators that it must leave usable, and destroys them: "processes" or "threads" of
// a rank each, "pairs": threads of two ranks, "group": one thread, "all": one thread and ncclCommInitAll, "host": half
// of the ranks as processes, the other half on another host. The exit code of the program.
int run_ranks(const char* mode, int ranks, Body body);
// The same as processes, each of which calls `before` with its rank first of all.
int run_processes(int ranks, void (*before)(int rank), Body body);

void destroy(Local* local);
// Polls until the communicator is no longer in progress, up to 100 s; the last answer.
ncclResult_t poll_until_done(ncclComm_t comm);
long long now_ms(void);
