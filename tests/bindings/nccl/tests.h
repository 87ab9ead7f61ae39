// The parts of conformance_test.c, each over all ranks of a communicator.
#pragma once

#include "tests/bindings/nccl/harness.h"

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

// arguments.c
void test_memory(Local* local);
void test_configs(Local* local);
void test_wrong_arguments(Local* local);
void test_device_interface(Local* local);
