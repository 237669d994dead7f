/*
 * trace_condition: when the flight recorder of `smolder trace --last` writes what it has.
 *
 *	>10ms              a call that took longer
 *	=EIO               a call that failed with that error
 *	fsync              any call of fsync
 *	connect>100ms      one of connect that took longer
 *	openat=ENOENT      one of openat that failed so
 *	end                a process that ended
 *
 * Several, with commas between them: any of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/trace_wire.h"
#include "syscall/calls.h"

#define TRACE_CONDITIONS_MAX 16

struct trace_condition { /* zero-initialised never holds */
	struct {
		uint8_t calls[SYSCALL_CALLS]; /* SYSCALL_WANTED, as syscall_calls_want() sets it */
		bool any_call, end;
		uint64_t min_ns;
		int error;
	} terms[TRACE_CONDITIONS_MAX];
	unsigned count;
};

/* 0, or -EINVAL with the word that makes no sense in *ret_word (caller frees it). */
int trace_condition_parse(const char *text, const struct syscall_calls *calls,
			  struct trace_condition *ret, char **ret_word);

bool trace_condition_holds(const struct trace_condition *c, const struct trace_record *r);
