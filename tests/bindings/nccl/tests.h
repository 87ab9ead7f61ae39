// The parts of conformance_test.c, each over all ranks of a communicator.
#pragma once

#include "tests/bindings/nccl/harness.h"

// All ranks of `local`'s communicators add what is 1 on each: the number of ranks.
void expect_ranks(Local* local, int ranks);
// A copy of local's communicators, to spoil.
Local copy_of(Local* local);
// An id of rank 0, told to the others through a communicator.
ncclUniqueId new_id(Local* local);

// collectives.c
void test_collectives(Local* local);
void test_types(Local* local);
void test_operators(Local* local);
void test_messages(Local* local);
void test_groups(Local* local);

// communicators.c
void test_questions(Local* local);
void test_splits(Local* local);
void test_shrinks(Local* local);
void test_revoke(Local* local);
void test_inits(Local* local);
void test_non_blocking(Local* local);

// jobs.c
void test_jobs_of_one_parent(Local* local);
void test_jobs_of_several_parents(Local* local);
void test_ends_in_groups(Local* local);
void test_non_blocking_jobs(Local* local);

// arguments.c
void test_memory(Local* local);
void test_configs(Local* local);
void test_wrong_arguments(Local* local);
void test_device_interface(Local* local);
