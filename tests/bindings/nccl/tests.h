// Declares the parts of conformance_test.c, each of which runs on all ranks of a communicator.
#pragma once

#include "tests/bindings/nccl/harness.h"

// Expects that `local`'s communicators have `ranks` ranks: every rank adds 1, and compares the sum.
void expect_ranks(Local* local, int ranks);
// Returns a copy of local's communicators, which a test may break.
Local copy_of(Local* local);
// Returns an id of rank 0, which the others get through a communicator.
ncclUniqueId new_id(Local* local);

// The functions below are in collectives.c.
void test_collectives(Local* local);
void test_types(Local* local);
void test_operators(Local* local);
void test_messages(Local* local);
void test_groups(Local* local);

// The functions below are in communicators.c.
void test_questions(Local* local);
void test_splits(Local* local);
void test_shrinks(Local* local);
void test_revoke(Local* local);
void test_inits(Local* local);
void test_non_blocking(Local* local);

// The functions below are in jobs.c.
void test_jobs_of_one_parent(Local* local);
void test_jobs_of_several_parents(Local* local);
void test_ends_in_groups(Local* local);
void test_non_blocking_jobs(Local* local);

// The functions below are in arguments.c.
void test_memory(Local* local);
void test_configs(Local* local);
void test_wrong_arguments(Local* local);
void test_device_interface(Local* local);
