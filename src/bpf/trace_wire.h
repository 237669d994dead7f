/*
 * trace_wire: what passes between bpf/trace.bpf.c and user space.
 *
 * User space writes a plan for each number of a system call: whether it is traced, and which of the
 * memory that its arguments point to is captured. A call that returns becomes one record: a fixed
 * head, then chunks, each with what was read of one argument. A chunk that is not there could not
 * be read. These bytes are other processes' memory: they hold secrets, and anything at all.
 */
#pragma once

#include "bpf/syscall_wire.h"

#define TRACE_ARGS        6
#define TRACE_CAPTURES    8     /* of a call */
#define TRACE_DATA_MAX    16384 /* bytes of chunks in a record; a power of two */
#define TRACE_READ_MAX    4096  /* bytes of one chunk; a power of two */
#define TRACE_ENTRY       8192  /* bytes of chunks that are kept from the entry on */
#define TRACE_VECTORS     32    /* buffers of an iovec that are captured */
#define TRACE_STRINGS     33    /* of argv: one more than is shown */
#define TRACE_STRING      4095  /* the longest -s */
#define TRACE_ENV_MAX     512   /* variables that are counted */
#define TRACE_DIRENTS_MAX 2048  /* the same of entries of a directory */
#define TRACE_ERRNOS      4     /* words of 64 errnos: what --errno chose */

enum trace_capture_kind {
	TRACE_NOTHING,
	TRACE_TEXT,     /* up to its NUL, or to `max` bytes */
	TRACE_BYTES,    /* `size` of them */
	TRACE_ARRAY,    /* args[count_arg] elements of `size` */
	TRACE_RESULT,   /* as many elements of `size` as the result says */
	TRACE_SOCKADDR, /* as many bytes as the __u32 at args[count_arg] says */
	TRACE_IOVEC,    /* `size` struct iovec, args[count_arg] if that is 0; `max` bytes of each
			   buffer */
	TRACE_MSGHDR,   /* a struct msghdr, what it points to, and `max` bytes of each buffer */
	TRACE_ARGV,     /* strings, `max` bytes of each */
	TRACE_ENVP,     /* a __u32: how many there are */
	TRACE_DIRENTS,  /* a __u32: how many entries of a directory there are */
	TRACE_FILE,     /* the file of a descriptor: struct trace_file, and its names, leaf first */
	TRACE_FRAME,    /* `size` bytes, `max` above the stack pointer: a signal's frame */
};

enum trace_when {
	TRACE_AT_ENTRY = 1,
	TRACE_AT_EXIT = 2,
	TRACE_OUTPUT = 4, /* at exit: not of a call that failed */
	TRACE_FILLED = 8, /* of buffers: only as much as the result says was read */
};

struct trace_capture {
	__u8 kind; /* enum trace_capture_kind */
	__u8 when; /* of enum trace_when */
	__u8 arg;
	__u8 count_arg;
	__u16 size;
	__u16 max;
};

struct trace_plan {
	__u8 traced;
	__u8 starts; /* it starts a program: execve, execveat */
	__u8 entry;  /* some of the captures are at entry */
	__u8 count;  /* of captures */
	__u32 pad;
	struct trace_capture captures[TRACE_CAPTURES];
};

/* What of an argument a chunk holds. */
enum trace_part {
	TRACE_MAIN,      /* what it points to */
	TRACE_NAME,      /* of a msghdr … */
	TRACE_VECTOR,    /* … its iovec … */
	TRACE_CONTROL,   /* … and its control data */
	TRACE_FILE_HEAD, /* of a descriptor: struct trace_file */
	TRACE_ITEMS,     /* + i: the data of buffer i, or string i of argv */
};

struct trace_chunk { /* then the bytes, and up to 7 more so that the next one is aligned */
	__u16 bytes;
	__u8 arg;
	__u8 part;     /* enum trace_part */
	__u8 at_entry; /* else at exit */
	__u8 pad[3];
};

#define TRACE_RESULT_FD 6  /* as `arg`: the descriptor that a call returns */
#define TRACE_NAMES     32 /* directories of a path that are captured */

struct trace_file { /* what a descriptor refers to */
	__u64 inode;
	__u64 magic; /* of its file system */
};

/* File systems whose files have no path. */
#define TRACE_PIPES     0x50495045
#define TRACE_SOCKETS   0x534f434b
#define TRACE_ANONYMOUS 0x09041934

enum trace_record_kind {
	TRACE_CALL,      /* it returned */
	TRACE_NO_RETURN, /* the thread ended in it */
	TRACE_ENDED,     /* the thread ended: result is what wait() will say */
	TRACE_SIGNAL,    /* a signal was delivered: `call` is its number; args: code, pid, uid,
			    status or address */
};

struct trace_record {
	__u64 start, end; /* CLOCK_MONOTONIC */
	__s64 result;
	__u64 args[TRACE_ARGS];
	__u32 bytes; /* of the whole record */
	__u32 pid, tid;
	__u32 call;     /* as bpf/syscall_wire.h numbers them */
	__u16 kind;     /* enum trace_record_kind */
	__u16 short_of; /* captures that found no room */
	__u32 pad;
	char comm[SYSCALL_COMM]; /* of the thread */
				 /* then chunks, to the end */
};

_Static_assert(sizeof(struct trace_record) == 112, "the head of a record");

/* How calls are chosen, beside struct wire_filter: set once, before the program loads. */
struct trace_choice {
	__u64 min_ns;               /* of latency */
	__u64 errnos[TRACE_ERRNOS]; /* a bit for each */
	__u32 self;                 /* our own process, which is never traced */
	__u32 awaited;   /* a process that is traced from its first program on; 0: none */
	__u8 failed;     /* only calls that failed … */
	__u8 by_errno;   /* … with one of errnos */
	__u8 calls_only; /* no records of signals and ends */
	__u8 stacks;     /* bpf/trace_stack.bpf.c follows */
	__u8 pad[4];
};

/* A thread's call in progress. */
#define TRACE_NO_CALL 0xffffffffu
struct trace_pending {
	__u64 start;
	__u64 args[TRACE_ARGS];
	__u32 call; /* TRACE_NO_CALL: none */
	__u32 pid, tid;
	__u32 entry_bytes; /* in the map `entries` */
	__u64 written;     /* when the call returned whose stack is to be taken; 0: none */
	char comm[SYSCALL_COMM];
};

/* Counters, one of each per CPU: taken = received + lost + lost notes, once all is drained. */
enum trace_counter {
	TRACE_TAKEN,      /* records that passed all filters */
	TRACE_LOST,       /* … and found no room in the ring: calls … */
	TRACE_LOST_NOTES, /* … and ends and signals */
	TRACE_NO_THREAD,  /* calls not seen, as too many threads were being traced */
	TRACE_NO_ENTRY,   /* calls without what is captured at entry, for the same reason */
	TRACE_NESTED,     /* records given up, as one was being written on that CPU */
	TRACE_COUNTERS,
};

struct trace_counts {
	__u64 n[TRACE_COUNTERS];
};
