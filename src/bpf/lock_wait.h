/*
 * lock_wait: who has the lock that a thread waits for. Both sides include this file: the BPF
 * program reads the words of a thread that begins to wait, user space those of one that waits
 * already.
 *
 * glibc keeps the owner of a mutex two words behind the one that is waited for. Whether it really
 * is a mutex is not known here: user space checks that the number is a thread's.
 */
#pragma once

#include <stdbool.h>

#include "arch/arch.h"
#include "bpf/offcpu_wire.h"

#define LOCK_WAIT_WORDS 3 /* from args[0] on */

enum { LOCK_CONTENDED = 2 }; /* in glibc, Rust and Go */

/* Whether the call looks like glibc waiting for a mutex. */
static __always_inline bool lock_wait_is_one(const struct offcpu_details *d)
{
	enum { COMMAND = 127, WAIT = 0, WAIT_BITSET = 9 }; /* of a futex */
	__u32 command = d->args[1] & COMMAND;

	return d->syscall == ARCH_FUTEX && (__u32)d->args[2] == LOCK_CONTENDED &&
	       (command == WAIT || command == WAIT_BITSET);
}

/* offcpu_details.holder */
static __always_inline __u32 lock_wait_holder(const __u32 words[LOCK_WAIT_WORDS])
{
	return words[0] == LOCK_CONTENDED ? words[2] : 0;
}
